import { once } from "node:events";
import { expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { canConnect, openRaw } from "../../../support/http.ts";
import { useServers } from "./servers.ts";

const servers = useServers();

const REQUEST = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
const GRACE_MS = 60_000;

/** Starts a server that holds its answers. Returns the requests that it has begun to answer. */
async function startHoldingServer() {
  const held: (() => void)[] = [];
  const server = await servers.serve((_req, res) => void held.push(() => res.end("here")));
  const close = async () => {
    const begunAt = performance.now();
    await server.close(GRACE_MS);
    return performance.now() - begunAt;
  };
  const refused = () =>
    eventually(
      "it takes no connection",
      async () => !(await canConnect(Number(server.address.split(":")[1]))),
    );
  return { server, held, close, refused };
}

test("on close, a connection with a request in flight ends with its answer, which announces this, and then the server is closed", async () => {
  const { server, held, close, refused } = await startHoldingServer();
  const client = openRaw(server.address, REQUEST);
  await eventually("it is in flight", () => held.length === 1);
  const closed = close();
  await refused();
  const ended = once(client.socket, "end");
  held[0]?.();
  await ended;
  expect(client.received()).toMatch(/^HTTP\/1\.1 200 [\s\S]*^Connection: close\r$[\s\S]*here/m);
  client.socket.end();
  expect(await closed).toBeLessThan(1500);
});

test("on close, a connection that was used a moment ago serves one more request and then ends", async () => {
  const { server, held, close, refused } = await startHoldingServer();
  const client = openRaw(server.address, REQUEST);
  await eventually("it is in flight", () => held.length === 1);
  held[0]?.();
  await eventually("it is answered", () => client.received().endsWith("here"));
  const closed = close();
  await refused();
  client.socket.write(REQUEST);
  await eventually("the second is in flight", () => held.length === 2);
  held[1]?.();
  await once(client.socket, "end");
  client.socket.end();
  expect(client.received().match(/^Connection: \S+/gm)).toEqual([
    "Connection: keep-alive",
    "Connection: close",
  ]);
  await closed;
});

test("on close, an idle connection is closed once it has been idle for two seconds", async () => {
  const { server, held, close } = await startHoldingServer();
  const client = openRaw(server.address, REQUEST);
  await eventually("it is in flight", () => held.length === 1);
  held[0]?.();
  await eventually("it is answered", () => client.received().endsWith("here"));
  const ended = once(client.socket, "end").then(() => client.socket.end());
  const ms = await close();
  await ended;
  expect(ms).toBeGreaterThan(1500);
  expect(ms).toBeLessThan(10_000);
});

test("a request after one whose answer ends the connection is not processed, because it would get no answer", async () => {
  const { server, held } = await startHoldingServer();
  const client = openRaw(server.address, `GET / HTTP/1.1\r\n\r\n${REQUEST}`); // the first has no Host
  await once(client.socket, "end");
  client.socket.end();
  expect(client.received().match(/^HTTP\S+ \d+/gm)).toEqual(["HTTP/1.1 400"]);
  expect(held).toHaveLength(0);
});
