import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Queue } from "bullmq";
import { Redis } from "ioredis";
import { SENT_HEADER } from "../processes/steady-protocol.ts";
import { announce, JOB_OPTIONS, QUEUE, QUEUE_OPTIONS, type StoredCall } from "./settings.ts";

/*
 * Baseline with which the bench compares the webhooks gateway, as one would write it by hand in an hour: node:http, an
 * HMAC of the raw body, and one `queue.add`. The path ends with the job's number. If the request has a header with its
 * send time, the call gets the same header. The baseline validates only the signature. It has no deadlines and no limits,
 * does not finish its requests before it stops, and logs nothing.
 */
const [redisUrl = "", secret = ""] = process.argv.slice(2);
const queue = new Queue<StoredCall>(QUEUE, { ...QUEUE_OPTIONS, connection: new Redis(redisUrl) });

type Signed = { path: string; signature: string; contentType: string; sentAt: unknown; body: Buffer };
type Accepted = { id: string; job: number };

async function accept({ path, signature, contentType, sentAt, body }: Signed): Promise<Accepted | undefined> {
  const expected = createHmac("sha256", secret).update(body).digest();
  const given = Buffer.from(signature.replace("sha256=", ""), "hex");
  if (given.length !== expected.length || !timingSafeEqual(given, expected)) return undefined;
  const job = Number(path.slice(path.lastIndexOf("/") + 1));
  const id = `c_${randomBytes(16).toString("hex")}`;
  const headers = {
    "Content-Type": contentType,
    "X-PLATFORM-SERVICE-ID": "1",
    "X-PLATFORM-CALL-ID": id,
    "X-WEBHOOK-PATH": path,
    "X-WEBHOOK-NAME": "bench",
    "X-WEBHOOK-ORIGIN": "webhook",
    ...(typeof sentAt === "string" && { [SENT_HEADER]: sentAt }),
  };
  await queue.add(
    "call",
    { job_id: job, headers, body: body.toString("base64") },
    { ...JOB_OPTIONS, jobId: id },
  );
  return { id, job };
}

const server = createServer((req, res) => {
  const chunks: Buffer[] = [];
  req.on("data", (chunk: Buffer) => chunks.push(chunk));
  req.on("end", async () => {
    const { "x-signature-256": signature, "content-type": contentType = "" } = req.headers;
    const call = {
      path: req.url ?? "",
      signature: String(signature),
      contentType,
      sentAt: req.headers[SENT_HEADER.toLowerCase()],
      body: Buffer.concat(chunks),
    };
    const accepted = await accept(call);
    const answer = JSON.stringify(
      accepted
        ? { status: "accepted", job_id: accepted.job, call_id: accepted.id }
        : { error: "unauthorized" },
    );
    res.writeHead(accepted ? 202 : 401, {
      "Content-Type": "application/json",
      "Content-Length": answer.length,
    });
    res.end(answer);
  });
});
server.listen(0, "127.0.0.1", () => {
  announce({ address: `127.0.0.1:${(server.address() as AddressInfo).port}` });
});
