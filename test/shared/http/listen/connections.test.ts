import { Agent } from "node:http";
import { expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { readBody } from "../../../../shared/http/body.ts";
import { sendProblem } from "../../../../shared/http/problem.ts";
import { type AppError, toAppError } from "../../../../shared/platform/errors/app-error.ts";
import { openRaw, send, sendRaw } from "../../../support/http.ts";
import { refuse, useServers } from "./servers.ts";

const servers = useServers();

test.each(["GET", "POST"])("a refused %s request without a body keeps its connection", async (method) => {
  const server = await servers.serve(refuse);
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  for (let i = 0; i < 3; i++) {
    const answer = await send(server.address, { method, path: "/", agent, headers: ["X-Ignored", "1"] });
    expect([answer.status, answer.headers["connection"]]).toEqual([404, "keep-alive"]);
  }
  agent.destroy();
  expect(server.seen.size).toBe(1);
});

test("a refused request without Content-Length and Transfer-Encoding keeps its connection open", async () => {
  const server = await servers.serve(refuse);
  const bare = "POST / HTTP/1.1\r\nHost: x\r\n\r\n";
  const raw = await sendRaw(server.address, bare + bare, {
    enough: (soFar) => (soFar.match(/"status":404/g) ?? []).length >= 2,
  });
  expect(raw).not.toMatch(/Connection: close/i);
});

const CALL = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n";
const statuses = (raw: string) => raw.match(/HTTP\/1\.1 \d+/g)?.map((line) => line.slice(9));

/** Starts a server that answers a request only on command. */
async function startSlowServer() {
  const held: (() => void)[] = [];
  const refused: AppError[] = [];
  const server = await servers.serve((req, res) => {
    readBody(req, res, 1000).then(
      (body) => held.push(() => res.end(body)),
      (thrown: unknown) => {
        refused.push(toAppError(thrown));
        sendProblem(req, res, toAppError(thrown));
      },
    );
  });
  return { server, held, refused };
}

test("pipelined requests are answered before the garbage after them", async () => {
  const { server, held } = await startSlowServer();
  const sender = openRaw(server.address, `${CALL}a${CALL}bgarbage\r\n\r\n`);
  await eventually("both are held", () => held.length === 2);
  expect(sender.received()).toBe("");
  for (const answer of held) answer();
  await eventually("all is answered", () => statuses(sender.received())?.length === 3);
  sender.socket.destroy();
  expect(statuses(sender.received())).toEqual(["200", "200", "400"]);
});

test("a pipelined request is answered before the next one, which does not arrive completely", async () => {
  const { server, held, refused } = await startSlowServer();
  const sender = openRaw(server.address, `${CALL}a${CALL}`);
  await eventually("the second is given up", () => refused.length === 1);
  expect(sender.received()).toBe("");
  held[0]?.();
  await eventually("both are answered", () => statuses(sender.received())?.length === 2);
  sender.socket.destroy();
  expect(statuses(sender.received())).toEqual(["200", "408"]);
});
