-- The voting show: each function is one transaction, and the client calls them in order.
CREATE TABLE contestants (number integer PRIMARY KEY, votes bigint NOT NULL, recent bigint NOT NULL DEFAULT 0);
CREATE TABLE areas (code integer PRIMARY KEY, state text NOT NULL);
CREATE TABLE votes (id bigint PRIMARY KEY, phone bigint NOT NULL, contestant integer NOT NULL, state text NOT NULL);
CREATE UNIQUE INDEX votes_by_phone ON votes (phone);
CREATE INDEX votes_by_contestant ON votes (contestant);
CREATE TABLE latest (place bigint PRIMARY KEY, contestant integer NOT NULL, visible boolean NOT NULL);
CREATE TABLE boards (board text, contestant integer);
CREATE TABLE removals (place serial, contestant integer, votes bigint);
CREATE TABLE show (total bigint, valid bigint, refused bigint, remaining bigint, newest integer);
INSERT INTO contestants SELECT n, 0, 0 FROM generate_series(1, 50) AS n;
INSERT INTO areas SELECT 200 + n, 'S' || n / 6 FROM generate_series(0, 299) AS n WHERE n % 10 <> 9;
INSERT INTO show VALUES (0, 0, 0, 20000, NULL);

-- Draws a vote and takes it; whether it counts.
CREATE FUNCTION vote() RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  drawn_phone bigint := (200 + floor(random() * 300)) * 10000000 + floor(random() * 10000000);
  chosen integer := CASE WHEN random() < 0.01 THEN 999 ELSE 1 + floor(random() * 50) END;
  number bigint;
  from_state text;
BEGIN
  UPDATE show SET total = total + 1 RETURNING total INTO number;
  IF NOT EXISTS (SELECT 1 FROM contestants AS c WHERE c.number = chosen) OR EXISTS (SELECT 1 FROM votes WHERE phone = drawn_phone) THEN
    UPDATE show SET refused = refused + 1;
    RETURN false;
  END IF;
  SELECT state INTO from_state FROM areas WHERE code = drawn_phone / 10000000;
  INSERT INTO votes VALUES (number, drawn_phone, chosen, coalesce(from_state, 'XX'));
  UPDATE contestants AS c SET votes = votes + 1 WHERE c.number = chosen;
  UPDATE show SET valid = valid + 1, newest = chosen;
  RETURN true;
END $$;

CREATE FUNCTION most_and_fewest() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM boards WHERE board <> 'latest';
  INSERT INTO boards SELECT 'most', number FROM contestants ORDER BY votes DESC, number LIMIT 3;
  INSERT INTO boards (SELECT 'fewest', number FROM contestants ORDER BY votes, number DESC LIMIT 3);
END $$;

CREATE FUNCTION latest_board() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM boards WHERE board = 'latest';
  INSERT INTO boards SELECT 'latest', number FROM contestants WHERE recent > 0 ORDER BY recent DESC, number LIMIT 3;
END $$;

-- The window of the latest 100 votes slides every ten; the boards. Whether somebody has to go.
CREATE FUNCTION rank_boards() RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE place_of bigint; chosen integer; rest bigint;
BEGIN
  SELECT valid, newest INTO place_of, chosen FROM show;
  INSERT INTO latest VALUES (place_of, chosen, false);
  IF place_of >= 100 AND place_of % 10 = 0 THEN
    DELETE FROM latest WHERE place <= place_of - 100;
    UPDATE latest SET visible = true WHERE NOT visible;
    UPDATE contestants AS c SET recent = (SELECT count(*) FROM latest AS l WHERE l.visible AND l.contestant = c.number);
    PERFORM latest_board();
  END IF;
  PERFORM most_and_fewest();
  UPDATE show SET remaining = remaining - 1 RETURNING remaining INTO rest;
  IF rest = 0 THEN
    UPDATE show SET remaining = 20000;
    RETURN true;
  END IF;
  RETURN false;
END $$;

-- The one with the fewest votes goes, with the votes.
CREATE FUNCTION remove() RETURNS void LANGUAGE plpgsql AS $$
DECLARE last integer; had bigint;
BEGIN
  IF (SELECT count(*) FROM contestants) < 2 THEN
    RETURN;
  END IF;
  SELECT number, votes INTO last, had FROM contestants ORDER BY votes, number DESC LIMIT 1;
  INSERT INTO removals (contestant, votes) VALUES (last, had);
  DELETE FROM votes WHERE contestant = last;
  DELETE FROM contestants WHERE number = last;
  PERFORM most_and_fewest();
  PERFORM latest_board();
END $$;
