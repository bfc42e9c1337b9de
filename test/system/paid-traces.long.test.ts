import { beforeAll, expect, test } from "vitest";
import type { Part } from "../../shared/dev/process.ts";
import { untilSelling } from "../../shared/dev/stack.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { traceIdOf } from "../../shared/platform/text/trace-id.ts";
import { useCollector } from "../fixtures/collector.ts";
import { useDevnet } from "../fixtures/devnet.ts";
import { useFakeRunner } from "../fixtures/fake-runner.ts";
import { useStack } from "../fixtures/stack.ts";
import { idIn, signOffer } from "../fixtures/x402.ts";
import { newPayer } from "../support/devnet.ts";
import { send } from "../support/http.ts";
import { sellingToAllKinds } from "./payers.ts";
import { treeOf } from "./span-tree.ts";

const SELLS = "/x402/jobs/1/1";

const devnet = useDevnet();
const collector = useCollector();
const runner = useFakeRunner();
const stack = useStack(() => ({
  env: collector.env,
  endpoints: [{ path: "/hook", job_id: 1, auth: "none" }],
  gateways: 0,
  x402: { ...sellingToAllKinds(devnet), gateways: 1 },
  postern: { runner: { url: runner.url, timeout_ms: 800 }, producer: { lock_ms: 1000 } },
}));
beforeAll(() => Promise.all(stack.x402.map(untilSelling)));

test("a paid call is one trace, including the requests to its facilitator and its node", async () => {
  const [x402] = stack.x402 as [Part];
  const payer = await newPayer(devnet);
  const payment = await signOffer(await send(x402.address, { path: SELLS }), { payer });
  const answer = await send(x402.address, { path: SELLS, headers: payment, body: "a paid body" });
  expect(answer.status).toBe(202);
  const offer = await eventually("the runner has it", () => runner.offers.at(-1));
  const traceId = traceIdOf(String(offer.headers["traceparent"]));
  const spans = await eventually("all spans have come", () => {
    const found = collector.spans.filter((span) => span.traceId === traceId);
    const kinds = found.map(({ kind, service }) => `${kind} ${service}`);
    return kinds.includes("server postern-x402") && kinds.includes("consumer postern-producer")
      ? found
      : undefined;
  });
  const tree = treeOf(spans);
  const server = "server POST /x402/jobs/{service_id}/{job_index}";
  expect(tree).toEqual(
    expect.arrayContaining([
      `root > ${server}`,
      `${server} > producer create x402/1/1`,
      `${server} > client POST /verify`,
      `${server} > client POST /settle`,
      `${server} > client eth_getTransactionReceipt`,
      "producer create x402/1/1 > consumer process x402/1/1 1",
      "consumer process x402/1/1 1 > client POST /jobs/{job_id}",
    ]),
  );
  const accepted = x402.process.events("payment.accepted").at(-1);
  expect(accepted).toMatchObject({ callId: idIn(answer), traceId });
  expect(collector.raw).not.toContain("a paid body");
  expect(collector.raw).not.toContain(payment["PAYMENT-SIGNATURE"]);
});
