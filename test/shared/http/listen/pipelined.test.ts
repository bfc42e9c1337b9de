import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { openRaw } from "../../../support/http.ts";
import { useServers } from "./servers.ts";

const servers = useServers();

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`;

/** Starts a server that records its answers, and which of them were closed. */
async function startHoldingServer(answer: (req: IncomingMessage, res: ServerResponse) => void = () => {}) {
  const answers: ServerResponse[] = [];
  const closed: (string | undefined)[] = [];
  const server = await servers.serve((req, res) => {
    answers.push(res);
    res.on("close", () => closed.push(req.url));
    answer(req, res);
  });
  return { server, answers, closed };
}

/** More bytes than the operating system buffers for an answer that is not read. */
const LARGE = Buffer.alloc(16 * 1024 * 1024);

const endings = [
  ["its client resets it", (client: Socket) => client.resetAndDestroy()],
  ["the server destroys it", (_client: Socket, own: Socket | undefined) => own?.destroy()],
] as const;

test.each(endings)(
  "every answer emits close once when %s, even if it waits behind another answer",
  async (_how, end) => {
    for (const first of ["/", "/large"]) {
      const { server, answers, closed } = await startHoldingServer((req, res) => {
        if (req.url === "/large") res.end(LARGE);
        if (req.url === "/small") res.end("small");
      });
      const { socket: client } = openRaw(server.address, [first, "/small", "/b", "/c"].map(get).join(""));
      client.pause();
      await eventually("all have begun", () => answers.length === 4);
      const own = answers[0]?.req.socket;
      end(client, own);
      await eventually("all are closed", () => closed.length === 4);
      expect(closed.toSorted()).toEqual([first, "/b", "/c", "/small"].toSorted());
      expect(answers.filter(({ destroyed }) => !destroyed)).toEqual([]);
      client.destroy();
    }
  },
);

test("a connection ends with the answer to the 64th waiting request, and later requests are not processed", async () => {
  const { server, answers } = await startHoldingServer();
  const client = openRaw(server.address, get("/").repeat(200));
  await eventually("as many wait as may", () => answers.length === 64);
  for (const res of answers) res.end("here");
  await once(client.socket, "end");
  client.socket.destroy();
  const received = client.received();
  expect(received.match(/HTTP\/1\.1 200/g)?.length).toBe(64);
  expect(received.match(/Connection: close/gi)?.length).toBe(1);
  expect(answers.length).toBe(64);
});

test("fewer than 64 requests that wait at once are all answered on one connection", async () => {
  const { server, answers } = await startHoldingServer();
  const client = openRaw(server.address, get("/").repeat(63));
  for (const round of [1, 2]) {
    await eventually("all wait", () => answers.length === 63 * round);
    for (const res of answers) res.end("here");
    const count = () => client.received().match(/HTTP\/1\.1 200/g)?.length;
    await eventually("all are answered", () => count() === 63 * round);
    if (round === 1) client.socket.write(get("/").repeat(63));
  }
  expect(client.received()).not.toMatch(/Connection: close/i);
  client.socket.destroy();
});

test("nothing is read after a request whose answer ends the connection", async () => {
  const { server, answers } = await startHoldingServer();
  const flood = get("/").repeat(200_000);
  const client = openRaw(server.address, flood);
  const own = await eventually("it has begun", () => answers[0]?.req.socket);
  await eventually("reading is paused", () => own.isPaused());
  expect(own.bytesRead).toBeLessThan(flood.length / 4);
  for (const res of answers) res.end("here");
  await once(client.socket, "end");
  expect(own.bytesRead).toBeLessThan(flood.length / 2);
  expect(client.received().match(/HTTP\/1\.1 200/g)?.length).toBe(64);
  client.socket.destroy();
});
