import { expect, test } from "vitest";
import { usePayments } from "../../../fixtures/payments.ts";
import { jsonLines } from "../../../fixtures/postern.ts";
import { keys } from "../../../fixtures/redis.ts";
import { LONG_RUN } from "../../../support/long-run.ts";
import { runHere, runHereWith } from "../run-here.ts";

const payments = usePayments();
const run = runHereWith(payments.postern);
const TRANSACTION = `0x${"ab".repeat(32)}`;

async function listed(...args: string[]): Promise<unknown[]> {
  const list = ["payments", "list", "-o", "json", "--config-dir", payments.postern.configDir, ...args];
  const ran = await runHere(list);
  expect(ran.code).toBe(0);
  return jsonLines(ran).map((line) => line["call_id"]);
}

test("postern payments list shows the newest first, and filters by state, payer, time, whether open, and dispute", async () => {
  const { journal } = payments.gateway;
  const claim = (now: number) => payments.claim({ now });
  const other = await payments.claim({ payer: `0x${"11".repeat(20)}`, now: 1000 });
  const [disputed, voided] = [await claim(2000), await claim(3000)];
  const review = await claim(4000);
  const found = async (id: string) => {
    const payment = await journal.find(id);
    if (payment === undefined) throw new Error(`${id} is not there`);
    return payment;
  };
  const settlement = {
    transaction: TRANSACTION,
    network: "eip155:84532",
    payer: "0x",
    by: "facilitator",
  } as const;
  await journal.enqueueSettled(await found(disputed), { settlement, proven: false }, { dueInMs: 0 });
  await journal.markDisputed(disputed, "the chain says: expired");
  await journal.markVoid(await found(voided), { reason: "expired" }, { now: Date.now() });
  await journal.markForReview(review, "spent");
  const all = [review, voided, disputed, other];
  const ran = await run(["payments", "list", "-o", "json"]);
  expect([ran.code, jsonLines(ran).map((line) => line["call_id"])]).toEqual([0, all]);
  const [since, until] = ["1970-01-01T00:00:02", "1970-01-01T00:00:03"];
  const picked: [string[], string[]][] = [
    [["--limit", "2"], all.slice(0, 2)],
    [
      ["--payer", payments.payer.address],
      [review, voided, disputed],
    ],
    [["--state", "void"], [voided]],
    [["--open"], [review, disputed, other]],
    [["--disputed"], [disputed]],
    [
      ["--since", since, "--until", until],
      [voided, disputed],
    ],
  ];
  expect(await Promise.all(picked.map(async ([args]) => [args, await listed(...args)]))).toEqual(picked);
});

test("postern payments list shows every payment exactly once, also with many in one millisecond, and no expired ones", async () => {
  const [count, sameTime] = LONG_RUN ? [250, 200] : [130, 110]; // the list reads 100 at once
  const ids = await Promise.all(
    Array.from({ length: count }, (_, i) =>
      payments.claim({ payer: `0x${String(i).padStart(40, "0")}`, now: 1000 + (i < sameTime ? 0 : i) }),
    ),
  );
  const [gone = "", ...left] = ids;
  await payments.redis.client.del(keys.record(gone), keys.payment(gone));
  expect((await listed("--limit", "0")).toSorted()).toEqual(left.toSorted());
  expect(await payments.redis.client.zscore(keys.payments, gone)).toBeNull();
  expect(await payments.redis.client.zcard(keys.payments)).toBe(left.length);
});
