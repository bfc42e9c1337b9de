import { randomBytes } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { HTTPFacilitatorClient, x402ResourceServer } from "@x402/core/server";
import { ExactEvmScheme } from "@x402/evm/exact/server";
import { paymentMiddleware } from "@x402/express";
import { Queue } from "bullmq";
import express from "express";
import { Redis } from "ioredis";
import { announce, JOB_OPTIONS, QUEUE, QUEUE_OPTIONS, type StoredCall } from "./settings.ts";

/*
 * Baseline with which the bench compares the payment gateway, built as x402's documentation shows: Express, the official
 * payment middleware, and a handler with one `queue.add`. It is weaker than the gateway. It queues the call before the
 * payment is settled, so the call runs even if the payment fails. The same payment, sent twice, becomes two calls. It
 * stores no payment.
 */
type Sale = {
  redisUrl: string;
  facilitatorUrl: string;
  path: string;
  network: `eip155:${number}`;
  payTo: string;
  price: string;
  maxTimeoutSeconds: number;
};

const sale = JSON.parse(process.argv[2] ?? "") as Sale;
const { network, payTo, price, maxTimeoutSeconds } = sale;
const queue = new Queue<StoredCall>(QUEUE, { ...QUEUE_OPTIONS, connection: new Redis(sale.redisUrl) });

const facilitator = new HTTPFacilitatorClient({ url: sale.facilitatorUrl });
const resources = new x402ResourceServer(facilitator).register(network, new ExactEvmScheme());
const accepts = { scheme: "exact", network, payTo, price, maxTimeoutSeconds };

const app = express();
app.disable("x-powered-by");
app.use(
  paymentMiddleware({ [`POST ${sale.path}`]: { accepts, description: "Job 7 of service 1" } }, resources),
);
app.post(sale.path, express.raw({ type: () => true }), async (req, res) => {
  const id = `c_${randomBytes(16).toString("hex")}`;
  const headers = {
    "Content-Type": req.get("content-type") ?? "",
    "X-PLATFORM-SERVICE-ID": "1",
    "X-PLATFORM-CALL-ID": id,
    "X-X402-ORIGIN": "x402",
  };
  const body = (req.body as Buffer).toString("base64");
  await queue.add("call", { job_id: 7, headers, body }, { ...JOB_OPTIONS, jobId: id });
  res.status(202).json({ status: "accepted", job_id: 7, call_id: id });
});

const server = createServer(app);
server.listen(0, "127.0.0.1", () => {
  announce({ address: `127.0.0.1:${(server.address() as AddressInfo).port}` });
});
