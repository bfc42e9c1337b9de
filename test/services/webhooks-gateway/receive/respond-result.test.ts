import { expect, test } from "vitest";
import type { Inject } from "../../../../services/producer/producer.ts";
import { createResults } from "../../../../shared/call/results/store.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { useInjecting } from "../../../fixtures/injecting.ts";
import { type TestWebhooks, useWebhooks } from "../../../fixtures/webhooks.ts";
import { send } from "../../../support/http.ts";
import { deliverResultOn } from "../../../support/results.ts";

const webhooks = useWebhooks();
const inject = useInjecting(webhooks.redis, "webhook");

const WAITING = { path: "/hooks/command", job_id: 1, auth: "none", respond: "result", wait_secs: 60 };
const NAMED = { ...WAITING, path: "/hooks/named", idempotency_header: "X-Delivery-Id" };

type Options = { run: Inject; endpoint?: object; resultSecrets?: string[] };

/** Starts a gateway and a producer whose runner handles each call with `run`. */
async function start({ run, endpoint = {}, resultSecrets = [] }: Options): Promise<TestWebhooks> {
  await inject(run);
  const endpoints = [WAITING, NAMED].map((each) => ({ ...each, ...endpoint }));
  return webhooks.start({ endpoints, resultSecrets });
}

const never: Inject = () => new Promise(() => {});

const deliver = ({ address }: TestWebhooks, path = WAITING.path, id = "delivery-1") =>
  send(address, { path, headers: { "X-Delivery-Id": id }, body: "hello" });

test("the answer to a delivery has the runner's status, type and body, with or without a delivery id", async () => {
  const body = Buffer.from([0, 1, 255]);
  const gateway = await start({ run: async () => ({ status: 201, contentType: "text/x", body }) });
  for (const { path } of [WAITING, NAMED]) {
    const answer = await deliver(gateway, path);
    expect([answer.status, answer.headers["content-type"], answer.body]).toEqual([201, "text/x", body]);
    expect(answer.headers).toMatchObject({
      "cache-control": "no-store",
      "content-security-policy": "sandbox; default-src 'none'",
    });
  }
});

test("a repeat of the delivery gets the same answer at once, and the job does not run again", async () => {
  let runs = 0;
  const run: Inject = async () => {
    runs += 1;
    return { status: 200, body: `run ${runs}` };
  };
  const gateway = await start({ run });
  const answers = [await deliver(gateway, NAMED.path), await deliver(gateway, NAMED.path)];
  expect(answers.map(({ text }) => text)).toEqual(["run 1", "run 1"]);
  expect(answers.map(({ headers }) => headers["idempotent-replayed"])).toEqual([undefined, "true"]);
  // The repeat is answered at once, not only after the sweep of all watched calls.
  const [, repeat] = gateway.log.events.filter(({ event }) => event === "wait.ended");
  expect(repeat?.fields["ms"]).toBeLessThan(4000);
});

test("when the wait times out, the answer is that of an endpoint that does not wait, and includes the result's token and URL", async () => {
  const endpoint = { wait_secs: 0.2 };
  const ours = await deliver(await start({ run: never, endpoint, resultSecrets: ["a secret of results"] }));
  expect([ours.status, ours.json()]).toEqual([
    202,
    {
      ...{ status: "accepted", job_id: 1, call_id: expect.any(String) },
      ...{ result_token: expect.any(String), result_url: expect.any(String) },
    },
  ]);
  const answer = { status: 200, content_type: "text/plain", body: "ok" };
  const senders = await deliver(await start({ run: never, endpoint: { ...endpoint, answer } }));
  expect([senders.status, senders.headers["content-type"], senders.text]).toEqual([200, "text/plain", "ok"]);
});

test("the answer is a long job's result if the runner delivers it while the sender waits", async () => {
  const results = createResults(webhooks.redis.partition);
  const deliverResult = deliverResultOn(webhooks.redis.partition);
  const text = { kind: "answer", status: 200, contentType: "text/plain", at: 1, by: "delivery" } as const;
  const told: string[] = [];
  const run: Inject = async ({ call }) => {
    told.push(call.id);
    return { status: 202 };
  };
  const gateway = await start({ run });
  const delivered = eventually("the runner has it", async () => {
    const [id = ""] = told;
    return (await results.state(id)) === "INJECTED";
  }).then(() => deliverResult(told[0] ?? "", { ...text, body: Buffer.from("done") }));
  const answer = await deliver(gateway, NAMED.path);
  expect(await delivered).toBe("stored");
  expect([answer.status, answer.text]).toEqual([200, "done"]);
});

test("a call that ends without a result that can be sent is answered as accepted", async () => {
  const gateway = await start({ run: async () => ({ status: 200, body: "x".repeat(300_000) }) });
  const answer = await deliver(gateway);
  expect([answer.status, answer.json()["status"]]).toEqual([202, "accepted"]);
  const endings = gateway.log.events.filter(({ event }) => event === "wait.ended");
  expect(endings.map(({ fields }) => fields["ending"])).toEqual(["resultless"]);
});

test("an endpoint that does not wait answers at once, even if it keeps the result", async () => {
  const endpoint = { respond: "accepted", wait_secs: undefined, keep_result: true };
  const gateway = await start({ run: never, endpoint });
  expect([(await deliver(gateway)).status, gateway.gateway.waiting()]).toEqual([202, 0]);
});
