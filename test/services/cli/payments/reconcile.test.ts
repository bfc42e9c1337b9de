import { expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { usePayments } from "../../../fixtures/payments.ts";
import { jsonLines, problemOf } from "../../../fixtures/postern.ts";
import { keys } from "../../../fixtures/redis.ts";
import { runHereWith } from "../run-here.ts";

const payments = usePayments();
const run = runHereWith(payments.postern);
const UNKNOWN = `c_${"0".repeat(32)}`;

const stateOf = async (id: string) => (await payments.gateway.journal.find(id))?.state;

test("postern payments reconcile has a running gateway check at once, and prints the outcome", async () => {
  const id = await payments.claim({ nonce: await payments.payOnChain() });
  const ran = await run(["payments", "reconcile", id]);
  expect(ran).toMatchObject({ code: 0 });
  expect(ran.stdout).toMatch(new RegExp(`^${id}: was settling, is now (settled|queued)\n$`));
  await eventually("queued", async () => (await stateOf(id)) === "QUEUED");
});

test("postern payments reconcile says that no gateway runs, and which payments no gateway works on", async () => {
  const [open, review] = [await payments.claim(), await payments.claimForReview()];
  await payments.stopGateway();
  const ran = await run(["payments", "reconcile", open, review, UNKNOWN, "--wait", "1", "-o", "json"]);
  expect(ran.code).toBe(1);
  expect(problemOf(ran)["detail"]).toMatch(
    /^no gateway checked 1 payment within 1 s: make sure that a gateway is running; it then checks these payments at once\n/,
  );
  const byId = new Map(jsonLines(ran).map((line) => [line["call_id"], line]));
  expect(byId.get(open)).toMatchObject({ state: "settling", looked: false });
  expect(byId.get(review)).toMatchObject({ state: "review", looked: null });
  expect(byId.get(UNKNOWN)).toMatchObject({ state: null });
});

test("postern payments reconcile --all makes all open payments due, and does not touch queued calls", async () => {
  const [open, queued] = [await payments.claim(), await payments.buy()];
  const dueAt = await payments.redis.client.zscore(keys.paymentsDue, queued);
  const ran = await run(["payments", "reconcile", "--all"]);
  expect(ran).toMatchObject({ code: 0, stdout: `${open}: checked: no change (settling)\n` });
  expect(await payments.redis.client.zscore(keys.paymentsDue, queued)).toBe(dueAt);
});
