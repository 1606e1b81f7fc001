// Jena as an oracle: evaluates queries over small datasets for `somersault-conformance jena`.
//
// Commands on standard input, answers on standard output:
//   data BYTES, a line feed, N-Quads   -> ready
//   query BYTES, a line feed, SPARQL   -> rows COUNT, and COUNT lines of terms with tabs between them
//                                         (nothing for what is unbound), or: failed REASON
//   reference BYTES, a line feed, SPARQL -> the same from Jena's reference evaluator, which carries out
//                                         the algebra as it is defined, without the optimiser
// A query that takes longer than LIMIT_MS fails.

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.apache.jena.graph.Node;
import org.apache.jena.query.Dataset;
import org.apache.jena.query.DatasetFactory;
import org.apache.jena.query.Query;
import org.apache.jena.query.QueryExecution;
import org.apache.jena.query.QueryFactory;
import org.apache.jena.query.ResultSet;
import org.apache.jena.query.Syntax;
import org.apache.jena.riot.Lang;
import org.apache.jena.riot.RDFDataMgr;
import org.apache.jena.sparql.algebra.Algebra;
import org.apache.jena.sparql.core.Var;
import org.apache.jena.sparql.engine.QueryIterator;
import org.apache.jena.sparql.engine.binding.Binding;

public final class Oracle {
    private static final long LIMIT_MS = 20_000;
    private Dataset dataset = DatasetFactory.create();
    private final PrintStream out =
            new PrintStream(new BufferedOutputStream(System.out, 1 << 16), false, StandardCharsets.UTF_8);

    public static void main(String[] arguments) throws IOException {
        Oracle oracle = new Oracle();
        InputStream commands = new BufferedInputStream(System.in);
        for (String line = line(commands); line != null; line = line(commands)) {
            String[] words = line.split(" ");
            byte[] body = commands.readNBytes(Integer.parseInt(words[1]));
            try {
                oracle.answer(words[0], body);
            } catch (Exception | StackOverflowError | OutOfMemoryError error) {
                oracle.out.print("failed " + String.valueOf(error).replaceAll("\\s+", " ") + "\n");
            }
            oracle.out.flush();
        }
        System.exit(0);
    }

    private void answer(String command, byte[] body) throws Exception {
        if (command.equals("data")) {
            dataset = DatasetFactory.create();
            RDFDataMgr.read(dataset, new ByteArrayInputStream(body), Lang.NQUADS);
            out.print("ready\n");
            return;
        }
        Query query = QueryFactory.create(new String(body, StandardCharsets.UTF_8), Syntax.syntaxARQ);
        List<String> rows = command.equals("reference") ? withinLimit(() -> rowsOfReference(query)) : rows(query);
        out.print("rows " + rows.size() + "\n");
        for (String row : rows) {
            out.print(row);
            out.print('\n');
        }
    }

    private List<String> rows(Query query) {
        List<String> rows = new ArrayList<>();
        try (QueryExecution execution =
                QueryExecution.dataset(dataset).query(query).timeout(LIMIT_MS, TimeUnit.MILLISECONDS).build()) {
            if (query.isAskType()) {
                rows.add(String.valueOf(execution.execAsk()));
                return rows;
            }
            ResultSet solutions = execution.execSelect();
            List<Var> columns = Var.varList(solutions.getResultVars());
            while (solutions.hasNext()) {
                rows.add(row(solutions.nextBinding(), columns));
            }
        }
        return rows;
    }

    // The reference evaluator has no limit of its own; what it is still doing then is left to a thread.
    private static <T> T withinLimit(Callable<T> call) throws Exception {
        FutureTask<T> task = new FutureTask<>(call);
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        thread.start();
        return task.get(LIMIT_MS, TimeUnit.MILLISECONDS);
    }

    private List<String> rowsOfReference(Query query) {
        List<String> rows = new ArrayList<>();
        QueryIterator solutions = Algebra.execRef(Algebra.compile(query), dataset.asDatasetGraph());
        if (query.isAskType()) {
            rows.add(String.valueOf(solutions.hasNext()));
            return rows;
        }
        List<Var> columns = query.getProjectVars();
        while (solutions.hasNext()) {
            rows.add(row(solutions.next(), columns));
        }
        return rows;
    }

    private static String row(Binding solution, List<Var> columns) {
        StringBuilder text = new StringBuilder();
        for (Var column : columns) {
            if (text.length() > 0 || column != columns.get(0)) {
                text.append('\t');
            }
            Node node = solution.get(column);
            if (node != null) {
                term(node, text);
            }
        }
        return text.toString();
    }

    private static void term(Node node, StringBuilder text) {
        if (node.isURI()) {
            text.append('<').append(node.getURI()).append('>');
        } else if (node.isBlank()) {
            text.append("_:b");
        } else if (node.isLiteral()) {
            text.append('"');
            escape(node.getLiteralLexicalForm(), text);
            text.append('"');
            if (!node.getLiteralLanguage().isEmpty()) {
                text.append('@').append(node.getLiteralLanguage());
            } else {
                text.append("^^<").append(node.getLiteralDatatypeURI()).append('>');
            }
        } else {
            text.append("<<>>");
        }
    }

    private static void escape(String form, StringBuilder text) {
        for (int at = 0; at < form.length(); at++) {
            char unit = form.charAt(at);
            switch (unit) {
                case '\\': text.append("\\\\"); break;
                case '"': text.append("\\\""); break;
                case '\n': text.append("\\n"); break;
                case '\r': text.append("\\r"); break;
                case '\t': text.append("\\t"); break;
                default: text.append(unit);
            }
        }
    }

    private static String line(InputStream from) throws IOException {
        ByteArrayOutputStream line = new ByteArrayOutputStream();
        for (int octet = from.read(); octet != '\n'; octet = from.read()) {
            if (octet < 0) {
                return null;
            }
            line.write(octet);
        }
        return line.toString(StandardCharsets.UTF_8);
    }
}
