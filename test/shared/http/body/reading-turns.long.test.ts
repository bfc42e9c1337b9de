import { Worker } from "node:worker_threads";
import { expect, test } from "vitest";
import { readBody } from "../../../../shared/http/body.ts";
import { listen } from "../../../../shared/http/listen.ts";
import { useEnds } from "../../../fixtures/ends.ts";

const ends = useEnds();
const MIB = 1024 * 1024;
const SENDERS = 64;
const EACH_BYTES = 4 * MIB;

/** Sends from separate threads, so that all connections have bytes to read in each turn of the event loop. */
const SEND = `
  const { request } = require("node:http");
  const { workerData: { url, senders, bytes }, parentPort } = require("node:worker_threads");
  const body = Buffer.alloc(bytes);
  const answers = Array.from({ length: senders }, () => new Promise((resolve, reject) => {
    const req = request(url, { method: "POST", agent: false, headers: { "Content-Length": bytes } }, (res) => {
      res.resume().once("end", () => resolve(res.statusCode));
    });
    req.once("error", reject).end(body);
  }));
  Promise.all(answers).then((all) => parentPort.postMessage(all));
`;

test("a turn of the event loop reads only a little of many large bodies together, and all are read in the end", async () => {
  const turns: number[] = [];
  let bytesOfTurn = 0;
  const countTurn = (bytes: Buffer): void => {
    if (bytesOfTurn === 0)
      setImmediate(() => {
        turns.push(bytesOfTurn);
        bytesOfTurn = 0;
      });
    bytesOfTurn += bytes.length;
  };
  const server = await listen(async (req, res) => {
    const body = await readBody(req, res, EACH_BYTES, { onBytes: countTurn });
    res.statusCode = body.length === EACH_BYTES ? 200 : 500;
    res.end();
  }, "127.0.0.1:0");
  ends.defer(() => server.close(0));

  const workerData = { url: server.url, senders: SENDERS, bytes: EACH_BYTES };
  const senders = new Worker(SEND, { eval: true, workerData });
  const statuses = await new Promise((resolve, reject) =>
    senders.once("message", resolve).once("error", reject),
  );
  expect(statuses).toEqual(Array(SENDERS).fill(200));
  // Buffered bytes of resumed requests count too: two shares of 1 MiB, and one last chunk each.
  const large = turns.filter((bytes) => bytes > 3 * MIB);
  expect(large.length, `turns of ${large.map((bytes) => (bytes / MIB).toFixed(1))} MiB`).toBeLessThan(10);
});
