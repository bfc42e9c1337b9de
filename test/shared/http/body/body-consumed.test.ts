import { once } from "node:events";
import type { IncomingMessage, RequestListener } from "node:http";
import { text } from "node:stream/consumers";
import express from "express";
import { expect, test } from "vitest";
import { hashBody, readBody } from "../../../../shared/http/body.ts";
import { listen } from "../../../../shared/http/listen.ts";
import { sendProblem } from "../../../../shared/http/problem.ts";
import { toAppError } from "../../../../shared/platform/errors/app-error.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { send } from "../../../support/http.ts";

const ends = useEnds();

/** Reads the body after `before` has handled the request. */
async function serve(before: (req: IncomingMessage) => unknown, read = readBody): Promise<string> {
  const handler: RequestListener = async (req, res) => {
    try {
      await before(req);
      res.end(String(await read(req, res, 1_000_000)));
    } catch (thrown) {
      sendProblem(req, res, toAppError(thrown));
    }
  };
  const server = await listen(handler, "127.0.0.1:0");
  ends.defer(() => server.close(0));
  return server.address;
}

const LARGE = "x".repeat(300_000);

test.each<[string, (req: IncomingMessage) => unknown]>([
  ["was read to its end", (req) => text(req)],
  ["was discarded", (req) => once(req.resume(), "end")],
  ["was partly read and then paused", (req) => once(req, "data").then(() => req.pause())],
  ['is read by a listener of "readable"', (req) => void req.on("readable", () => {})],
  ["was decoded to text", (req) => req.setEncoding("utf8")],
])("a body that %s is answered with 500 at once, and the answer names the remedy", async (_, before) => {
  for (const read of [readBody, hashBody] as (typeof readBody)[]) {
    const answer = await send(await serve(before, read), { path: "/", body: LARGE });
    expect(answer.status).toBe(500);
    expect(answer.json()).toMatchObject({
      code: "request.body_consumed",
      detail: expect.stringContaining("before express.json()"),
    });
  }
});

test("a request without a body is accepted, even if other code has read it", async () => {
  const address = await serve((req) => text(req));
  expect(await send(address, { path: "/", body: "" })).toMatchObject({ status: 200, text: "" });
  const chunked = await send(address, { path: "/", body: [], headers: { "Transfer-Encoding": "chunked" } });
  expect(chunked).toMatchObject({ status: 200, text: "" });
});

test("a body that express.json() ignores can be read after it, and a body that it reads is refused", async () => {
  const app = express();
  app.use(express.json());
  app.use(async (req, res) => {
    await readBody(req, res, 1000).then(
      (body) => res.end(body),
      (thrown) => sendProblem(req, res, toAppError(thrown)),
    );
  });
  const server = await listen(app, "127.0.0.1:0");
  ends.defer(() => server.close(0));
  const sent = (type: string) =>
    send(server.address, { path: "/", body: '{"a":1}', headers: { "Content-Type": type } });
  expect((await sent("text/plain")).text).toBe('{"a":1}');
  expect((await sent("application/json")).json()).toMatchObject({ code: "request.body_consumed" });
});
