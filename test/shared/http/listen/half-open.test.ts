import { once } from "node:events";
import { connect } from "node:net";
import { expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { openRaw } from "../../../support/http.ts";
import { onlyInLongRun } from "../../../support/long-run.ts";
import { echo, useServers } from "./servers.ts";

const servers = useServers();

const post = (body: string, declared = body.length) =>
  `POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ${declared}\r\n\r\n${body}`;
const statuses = (raw: string) => raw.match(/^HTTP\/1\.1 \d+/gm)?.map((line) => line.slice(9));

/** Sends these bytes and then FIN. Resolves with everything that is received. */
async function sendAndEnd(address: string, bytes: string): Promise<string> {
  const client = openRaw(address, bytes);
  client.socket.end();
  await once(client.socket, "close");
  return client.received();
}

test("a client that ends its side after its request gets its answer, and then the connection is closed", async () => {
  const server = await servers.serve((req, res) => {
    req.resume().socket.once("end", () => res.end("here"));
  });
  const raw = await sendAndEnd(server.address, post("hello"));
  expect(raw).toMatch(/^HTTP\/1\.1 200 [\s\S]*here$/);
  await eventually("the server has closed it", () => server.connections() === 0);
});

test("pipelined requests before a client ends its side are all answered in order", async () => {
  const held: (() => void)[] = [];
  const server = await servers.serve((req, res) => {
    req.resume();
    held.push(() => res.end(`answer ${req.url}`));
    if (held.length === 3)
      req.socket.once("end", () => {
        for (const answer of held.reverse()) answer();
      });
  });
  const raw = await sendAndEnd(
    server.address,
    ["/1", "/2", "/3"].map((path) => `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`).join(""),
  );
  expect(raw.match(/answer \S+/g)?.map((text) => text.slice(0, 9))).toEqual([
    "answer /1",
    "answer /2",
    "answer /3",
  ]);
});

test("if a client ends its side in the middle of a body, the request is refused with 400 and not accepted", async () => {
  let read = 0;
  const server = await servers.serve((req, res) => {
    req.once("end", () => {
      read += 1;
    });
    echo(req, res);
  });
  expect(statuses(await sendAndEnd(server.address, post("he", 5)))).toEqual(["400"]);
  expect(read).toBe(0);
});

onlyInLongRun(() => {
  test("if a client ends its side and reads nothing, its connection is closed, and so is one without an answer", async () => {
    const large = Buffer.alloc(32 * 1024 * 1024);
    const server = await servers.serve((req, res) => {
      if (req.url === "/large") res.end(large);
    });
    const clients = ["/large", "/never"].map((path) => {
      const socket = connect({
        port: Number(server.address.split(":")[1]),
        host: "127.0.0.1",
        allowHalfOpen: true,
      });
      socket.pause();
      socket.on("error", () => {});
      socket.end(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`);
      return socket;
    });
    await eventually("both are connected", () => server.now === 2);
    await eventually("the server has closed both", () => server.now === 0, 20_000);
    for (const socket of clients) socket.destroy();
  });
});
