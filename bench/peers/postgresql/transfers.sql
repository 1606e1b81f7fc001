-- Accounts, and a function that moves money between two of them if the first one has it.
CREATE TABLE accounts (id integer PRIMARY KEY, balance bigint NOT NULL) WITH (fillfactor = 50);
INSERT INTO accounts SELECT n, 1000000 FROM generate_series(1, :accounts) AS n;
CREATE FUNCTION transfer(debited integer, credited integer, amount bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE held bigint;
BEGIN
  -- Rows are locked in the order of their ids, so that no two transfers wait for each other.
  PERFORM 1 FROM accounts WHERE id IN (debited, credited) ORDER BY id FOR UPDATE;
  SELECT balance INTO held FROM accounts WHERE id = debited;
  IF held < amount THEN
    RETURN false;
  END IF;
  UPDATE accounts SET balance = balance - amount WHERE id = debited;
  UPDATE accounts SET balance = balance + amount WHERE id = credited;
  RETURN true;
END $$;
VACUUM ANALYZE accounts;
