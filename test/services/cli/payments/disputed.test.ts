import { expect, test } from "vitest";
import { usePayments } from "../../../fixtures/payments.ts";
import { jsonLines } from "../../../fixtures/postern.ts";
import { keys } from "../../../fixtures/redis.ts";
import { runHereWith } from "../run-here.ts";

const payments = usePayments();
const run = runHereWith(payments.postern);

test("postern status prints the number and age of payments in review or disputed, and the command that lists them", async () => {
  const { journal, redis } = payments.gateway;
  const lines = async () => (await run(["status"])).stdout.match(/^payments .*$/gm) ?? [];
  expect(await lines()).toEqual([]);
  await payments.claimForReview();
  const id = await payments.buy();
  await journal.markDisputed(id, "the chain says: expired");
  await redis.zadd(keys.paymentsDisputed, "XX", Date.now() - 7_260_000, id);
  expect(await lines()).toEqual([
    expect.stringMatching(
      /^payments in review: 1, the oldest for \S+.* \(postern payments list --state review\)$/,
    ),
    "payments disputed: 1, the oldest for 2h1m (postern payments list --disputed)",
  ]);
  const [json] = jsonLines(await run(["status", "-o", "json"]));
  expect(json?.["payments"]).toMatchObject({ review: { count: 1 }, disputed: { count: 1 } });
  await run(["payments", "resolve", id, "--acknowledged", "--reason", "seen"]);
  expect(await lines()).toHaveLength(1);
});

test("postern payments resolve --acknowledged takes several ids, or a filter of disputed payments", async () => {
  const { journal } = payments.gateway;
  const ids = [await payments.buy(), await payments.buy(), await payments.buy()];
  const [one = "", two = "", three = ""] = ids;
  for (const id of [one, three]) await journal.markDisputed(id, "the chain says: expired");
  const acknowledge = (...args: string[]) =>
    run(["payments", "resolve", "--acknowledged", "--reason", "the facilitator lied", ...args]);
  expect(await acknowledge(one, two)).toMatchObject({
    ...{ code: 0, stdout: "acknowledged 1 disputed payment; 1 not disputed, or acknowledged before\n" },
  });
  const [json] = jsonLines(await acknowledge("--state", "queued", "-o", "json"));
  expect(json).toMatchObject({ kind: "acknowledge", selection: "--state queued", done: 1, unchanged: 0 });
  const found = await Promise.all(ids.map((id) => journal.find(id)));
  expect(found.map((each) => each?.acknowledged?.reason)).toEqual([
    ...["the facilitator lied", undefined, "the facilitator lied"],
  ]);
  const unknown = `c_${"0".repeat(32)}`;
  const { code, stderr } = await acknowledge(one, unknown);
  expect([code, stderr]).toEqual([1, expect.stringContaining(`${unknown} is unknown`)]);
});

test("postern shows a disputed payment, also after it is acknowledged, as one that was queued but that the chain does not show", async () => {
  const { journal } = payments.gateway;
  const id = await payments.buy();
  const reason = "the call was queued on the facilitator's word, but the chain says: expired";
  await journal.markDisputed(id, reason);
  const transaction = String((await journal.find(id))?.settlement?.transaction);
  const shown = async () => {
    const { stdout } = await run(["payments", "show", id]);
    expect(stdout).not.toMatch(/was made|settled by|not yet confirmed/);
    return stdout;
  };
  const said = `transaction ${transaction} (reported by the facilitator; the chain does not show the payment)`;
  const disputed = await shown();
  expect(disputed).toMatch(
    /^state +queued since \S+ .*: the call was queued, but the chain does not show the payment \(postern payments resolve\)$/m,
  );
  expect(disputed).toMatch(new RegExp(`^DISPUTED +${reason}$`, "m"));
  expect(disputed).toContain(said);
  const step = `transaction ${transaction}, reported by the facilitator; ${reason}`;
  expect((await run(["calls", "show", id])).stdout).toContain(step);
  await run(["payments", "resolve", id, "--acknowledged", "--reason", "seen"]);
  const acknowledged = await shown();
  expect(acknowledged).toMatch(
    /^state +queued since \S+ .*: the call was queued, but the chain does not show the payment$/m,
  );
  expect(acknowledged).toMatch(new RegExp(`^reason +${reason}$`, "m"));
  expect(acknowledged).toContain(said);
});
