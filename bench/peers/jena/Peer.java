// Jena's in-memory graph behind the bench's line protocol (see ../README.md), with Fuseki on the same graph.

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;
import org.apache.jena.fuseki.main.FusekiServer;
import org.apache.jena.graph.Graph;
import org.apache.jena.mem2.GraphMem2Fast;
import org.apache.jena.query.ARQ;
import org.apache.jena.query.Dataset;
import org.apache.jena.query.DatasetFactory;
import org.apache.jena.query.Query;
import org.apache.jena.query.QueryCancelledException;
import org.apache.jena.query.QueryExecution;
import org.apache.jena.query.QueryFactory;
import org.apache.jena.query.ResultSet;
import org.apache.jena.riot.RDFDataMgr;
import org.apache.jena.riot.system.StreamRDFLib;
import org.apache.jena.sparql.core.DatasetGraphFactory;

public final class Peer {
    private final Graph graph = new GraphMem2Fast();
    private final Dataset dataset = DatasetFactory.wrap(DatasetGraphFactory.wrap(graph));
    private FusekiServer server;

    public static void main(String[] arguments) throws IOException {
        Peer peer = new Peer();
        InputStream commands = new BufferedInputStream(System.in);
        for (String line = line(commands); line != null; line = line(commands)) {
            String answer;
            try {
                answer = peer.answer(line, commands);
            } catch (QueryCancelledException late) {
                answer = "failed over time";
            } catch (Exception | OutOfMemoryError | StackOverflowError error) {
                answer = "failed " + String.valueOf(error).replaceAll("\\s+", " ");
            }
            System.out.println(answer);
            System.out.flush();
        }
        System.exit(0);
    }

    private String answer(String line, InputStream commands) throws IOException {
        String[] words = line.split(" ");
        switch (words[0]) {
            case "load": {
                long start = System.nanoTime();
                RDFDataMgr.parse(StreamRDFLib.graph(graph), line.substring("load ".length()));
                return "loaded " + graph.size() + " " + (System.nanoTime() - start);
            }
            case "query": {
                int runs = Integer.parseInt(words[1]);
                long limitMs = Long.parseLong(words[2]);
                String text = new String(commands.readNBytes(Integer.parseInt(words[3])), StandardCharsets.UTF_8);
                return run(text, runs, limitMs);
            }
            case "endpoint": {
                if (server == null) {
                    // A query that a client has given up would go on for ever otherwise.
                    ARQ.getContext().set(ARQ.queryTimeout, "120000");
                    server = FusekiServer.create().port(0).loopback(true).add("/data", dataset).build().start();
                }
                return "endpoint http://127.0.0.1:" + server.getPort() + "/data/sparql";
            }
            default:
                return "failed no command " + words[0];
        }
    }

    private String run(String text, int runs, long limitMs) {
        StringBuilder times = new StringBuilder();
        long rows = 0;
        for (int run = 0; run < runs; run++) {
            long start = System.nanoTime();
            rows = rows(text, limitMs);
            times.append(' ').append(System.nanoTime() - start);
        }
        return "rows " + rows + times;
    }

    private long rows(String text, long limitMs) {
        Query query = QueryFactory.create(text);
        try (QueryExecution execution =
                QueryExecution.dataset(dataset).query(query).timeout(limitMs, TimeUnit.MILLISECONDS).build()) {
            if (query.isAskType()) {
                execution.execAsk();
                return 1;
            }
            if (!query.isSelectType()) {
                return execution.execConstruct().size();
            }
            ResultSet solutions = execution.execSelect();
            long rows = 0;
            while (solutions.hasNext()) {
                solutions.nextBinding();
                rows++;
            }
            return rows;
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
