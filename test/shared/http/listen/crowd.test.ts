import { once } from "node:events";
import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { markAuthenticated, onAuthenticated } from "../../../../shared/http/authenticated.ts";
import { readBody } from "../../../../shared/http/body.ts";
import { Connections } from "../../../../shared/http/connections.ts";
import { listen } from "../../../../shared/http/listen.ts";
import { type AppError, toAppError } from "../../../../shared/platform/errors/app-error.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { openRaw } from "../../../support/http.ts";
import { recordingLog } from "../../../support/recording-log.ts";

const ends = useEnds();

type Named = PassThrough & { name: string; remoteAddress: string };

/**
 * Creates a limit of four connections, with the test's own clock. `closed` has the names of the connections that were
 * closed.
 */
function setUpConnections() {
  const closed: string[] = [];
  const needed = new Set<unknown>();
  let now = 0;
  const connections = new Connections({
    max: 4,
    isAnswering: (connection) => needed.has(connection),
    close: (connection) => closed.push((connection as Named).name),
    now: () => now,
  });
  return {
    closed,
    needed,
    connections,
    /** Opens a connection 100 ms after the previous one. */
    open(name: string, remoteAddress: string): Named {
      now += 100;
      const connection = Object.assign(new PassThrough(), { name, remoteAddress });
      connections.add(connection);
      return connection;
    },
    pass: (ms: number) => {
      now += ms;
    },
  };
}

const prove = (connection: Named) => markAuthenticated({ socket: connection } as never);

test("at the limit, the oldest unauthenticated connection of the address with the most of them is closed", () => {
  const { open, closed, connections } = setUpConnections();
  open("a1", "192.0.2.1");
  open("b1", "192.0.2.2");
  open("b2", "::ffff:192.0.2.2");
  open("c1", "192.0.2.3");
  open("d1", "192.0.2.4");
  expect([closed, connections.count]).toEqual([["b1"], 4]);
});

test("an address with many new connections is spared while another address has one older than a second", () => {
  const { open, closed, pass } = setUpConnections();
  open("stalled", "192.0.2.1");
  pass(1000);
  for (const name of ["b1", "b2", "b3", "b4"]) open(name, "192.0.2.2");
  expect(closed).toEqual(["stalled"]);
});

test("an authenticated connection stays open while any other can be closed", () => {
  const { open, closed, pass } = setUpConnections();
  prove(open("proven", "192.0.2.1"));
  pass(5000);
  for (let i = 0; i < 20; i++) open(`b${i}`, "192.0.2.1");
  expect(closed).toEqual(Array.from({ length: 17 }, (_, i) => `b${i}`));
});

test("if all are authenticated, the earliest one that is not answering is closed, and if all are answering, the new one is", () => {
  const { open, closed, needed, connections } = setUpConnections();
  const [first, second, ...rest] = ["p1", "p2", "p3", "p4"].map((name) => open(name, "192.0.2.1"));
  for (const each of [second, first, ...rest]) prove(each as Named);
  needed.add(second);
  prove(open("p5", "192.0.2.2"));
  expect(closed).toEqual(["p1"]);
  for (const each of rest) needed.add(each);
  open("p6", "192.0.2.2");
  open("p7", "192.0.2.3");
  expect(closed).toEqual(["p1", "p5", "p6"]);
  expect(connections.count).toBe(4);
});

test("connections that have ended free capacity, and count for no address", async () => {
  const { open, closed, connections } = setUpConnections();
  const gone = ["a1", "a2", "a3"].map((name) => open(name, "192.0.2.1"));
  for (const each of gone) each.destroy();
  await Promise.all(gone.map((each) => once(each, "close")));
  for (const name of ["b1", "c1", "d1", "e1"]) open(name, name);
  expect([closed, connections.count]).toEqual([[], 4]);
});

test("only the first authentication of a connection is reported", () => {
  const connection = Object.assign(new PassThrough(), { name: "a", remoteAddress: "192.0.2.1" });
  let told = 0;
  onAuthenticated(connection, () => {
    told += 1;
  });
  for (let i = 0; i < 3; i++) prove(connection);
  expect(told).toBe(1);
});

test("a server at its limit accepts a sender, and closes a stalled connection, whose request gets the reason", async () => {
  const refused: AppError[] = [];
  const log = recordingLog();
  const server = await listen(
    (req, res) => {
      readBody(req, res, 1000).then(
        (body) => {
          markAuthenticated(req);
          res.end(body);
        },
        (thrown: unknown) => refused.push(toAppError(thrown)),
      );
    },
    "127.0.0.1:0",
    { connectionsMax: 10, log },
  );
  ends.defer(() => server.close(0));
  const head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n";

  const honest = openRaw(server.address, `${head}hello`);
  await eventually("it is answered", () => honest.received().includes("hello"));
  for (let i = 0; i < 100; i++) {
    const stalled = openRaw(server.address, i % 2 === 0 ? `${head}he` : "POST / HT", "127.0.0.2");
    ends.defer(() => stalled.socket.destroy());
    await once(stalled.socket, "connect");
  }
  const late = openRaw(server.address, `${head}later`, "127.0.0.3");
  await eventually("a new sender is answered", () => late.received().includes("later"));
  honest.socket.write(`${head}again`);
  await eventually("and one that was there before", () => honest.received().includes("again"));
  expect(server.connections()).toBe(10);
  expect(new Set(refused.map(({ code }) => code))).toEqual(new Set(["request.over_budget"]));
  honest.socket.destroy();
  late.socket.destroy();
  await server.close(0);
  const closed = log.events.map(({ fields }) => Number(fields["times"]));
  expect(closed.reduce((sum, times) => sum + times, 0)).toBe(92);
});
