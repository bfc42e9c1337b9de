import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { connect } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { useServers } from "./servers.ts";

const ends = useEnds();
const servers = useServers();

/** What the system hands over at once. */
const CHUNK_BYTES = 64 * 1024;
const BODY_BYTES = 32 * 1024 * 1024;
/** By then a connection that is still read has brought more. */
const TURNS = 20;

test("of a body that nobody reads a connection keeps one chunk, whatever Node's own high-water mark is", async () => {
  let asked: IncomingMessage | undefined;
  const server = await servers.serve((req) => {
    asked = req;
  });
  const [host, port] = server.address.split(":");
  const client = connect(Number(port), host);
  client.on("error", () => {});
  ends.defer(() => client.destroy());
  await once(client, "connect");
  client.write(`POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ${BODY_BYTES}\r\n\r\n`);
  client.write(Buffer.alloc(BODY_BYTES));
  await eventually("some of it has come", () => (asked?.readableLength ?? 0) > 0);
  for (let turn = 0; turn < TURNS; turn++) await nextTurn();
  const { socket, readableLength = 0 } = asked as IncomingMessage;
  expect(readableLength + socket.readableLength).toBeLessThanOrEqual(CHUNK_BYTES);
  expect(client.writableLength).toBeGreaterThan(0);
});
