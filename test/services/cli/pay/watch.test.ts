import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { type WatchOutcome, watch } from "../../../../services/cli/pay/watch.ts";
import { useEnds } from "../../../fixtures/ends.ts";

const ends = useEnds();

/** A gateway that gives the next of these answers to each request for the events of a call. */
async function serve(...answers: RequestListener[]): Promise<{ url: URL; asked: IncomingMessage[] }> {
  const asked: IncomingMessage[] = [];
  const server = createServer((req, res) => {
    asked.push(req);
    (answers[asked.length - 1] ?? answers.at(-1))?.(req, res);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  ends.defer(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  const { port } = server.address() as AddressInfo;
  return { url: new URL(`http://127.0.0.1:${port}/x402/calls/c_1`), asked };
}

function begin(res: ServerResponse, ...events: [event: string, data: object][]): ServerResponse {
  res.writeHead(200, { "Content-Type": "text/event-stream" });
  res.write("retry: 1\n\n");
  for (const [event, data] of events)
    res.write(`id: ${event}-id\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  return res;
}

type Seen = { states: string[]; progress: unknown[]; watched: WatchOutcome };

async function seen(url: URL, { token = "rt_1", ms = 60_000, patienceMs = 60_000 } = {}): Promise<Seen> {
  const [states, progress]: [string[], unknown[]] = [[], []];
  const watched = await watch(url, {
    token,
    deadline: Date.now() + ms,
    patienceMs,
    onState: (state) => states.push(state),
    onProgress: (fields) => progress.push(fields),
  });
  return { states, progress, watched };
}

const INJECTED = ["state", { state: "injected" }] as [string, object];
const END = ["end", { state: "injected", result: "kept" }] as [string, object];

test("a stream that breaks is opened again with the token and the last event id, and continues to the end", async () => {
  const { url, asked } = await serve(
    // The connection ends in the middle of the answer, after the first part was sent: Node 26 would drop data that is not yet in the
    // socket.
    (_req, res) => begin(res, ["state", { state: "queued" }]).write(":\n", () => res.socket?.end()),
    (_req, res) => begin(res, INJECTED, ["progress", { progress: { step: 1 } }]).end(),
    (_req, res) => begin(res, END),
  );
  expect(await seen(url)).toEqual({
    states: ["queued", "injected"],
    progress: [{ step: 1 }],
    watched: { kind: "ended", state: "injected", result: "kept", failure: undefined },
  });
  expect(asked.map(({ headers }) => headers["last-event-id"])).toEqual([
    undefined,
    "state-id",
    "progress-id",
  ]);
  for (const { headers, url: path } of asked)
    expect([headers.authorization, path]).toEqual(["Bearer rt_1", "/x402/calls/c_1/events"]);
});

test("the end event says why the call failed, and text from strangers cannot control a terminal", async () => {
  const failure = { code: "runner.refused", title: "No" };
  const { url } = await serve((_req, res) =>
    begin(res, ["end", { state: "fail\u001b[31med", result: "failed", failure }]),
  );
  const { states, watched } = await seen(url);
  expect(states).toEqual(["fail [31med"]);
  expect(watched).toEqual({ kind: "ended", state: "fail [31med", result: "failed", failure });
});

test("a payment in review ends the watch, because an operator must decide", async () => {
  const { url } = await serve((_req, res) => begin(res, ["state", { state: "review" }]));
  expect((await seen(url)).watched).toMatchObject({ kind: "ended", state: "review" });
});

test.each<[string, RequestListener]>([
  ["a 404", (_req, res) => res.writeHead(404).end("{}")],
  ["a 429", (_req, res) => res.writeHead(429).end()],
  ["a page", (_req, res) => res.writeHead(200, { "Content-Type": "text/html" }).end("<p>")],
])("%s is no stream, so the caller must poll the call's state", async (_name, answer) => {
  const { url } = await serve(answer);
  expect((await seen(url)).watched).toEqual({ kind: "unwatched" });
});

test("no redirect is followed, so the token stays with the gateway that was paid", async () => {
  const elsewhere = await serve((_req, res) => begin(res, END));
  const { url } = await serve((_req, res) =>
    res.writeHead(307, { Location: `${elsewhere.url.href}/events` }).end(),
  );
  expect((await seen(url, { ms: 100 })).watched).toEqual({ kind: "late", state: undefined });
  expect(elsewhere.asked).toEqual([]);
});

test("at the deadline, the watch returns the call's last state", async () => {
  const { url } = await serve((_req, res) => begin(res, INJECTED));
  const { watched } = await seen(url, { ms: 100 });
  expect(watched).toEqual({ kind: "late", state: "injected" });
});

test("a silent job that the runner already has ends the watch sooner than a waiting job", async () => {
  const { url } = await serve((_req, res) => begin(res, INJECTED));
  expect((await seen(url, { patienceMs: 50 })).watched).toEqual({ kind: "late", state: "injected" });
  const waits = await serve((_req, res) => begin(res, ["state", { state: "queued" }]));
  const { watched } = await seen(waits.url, { patienceMs: 1, ms: 200 });
  expect(watched).toEqual({ kind: "late", state: "queued" });
});
