import { beforeEach, expect, test } from "vitest";
import type { DevAccount } from "../../../../services/dev/chain/chain.ts";
import { checksummed } from "../../../../shared/chain/checksum.ts";
import { type TestOperator, TOKENS, useOperator } from "../../../fixtures/console.ts";
import { usePayments } from "../../../fixtures/payments.ts";
import { jsonLines } from "../../../fixtures/postern.ts";
import { payersIn } from "../../../support/devnet.ts";
import { configureRefunds, payBack, refundable } from "../../console/refundable.ts";
import { runHere } from "../run-here.ts";

const COUNT = 4;

const payments = usePayments({ partitions: COUNT });
const operators = useOperator({ redis: payments.redis });

/** A payer in each partition. */
let payers: DevAccount[];
let service: TestOperator;
beforeEach(async () => {
  configureRefunds(payments);
  payers = await payersIn(payments.partitions, payments.devnet);
  service = await operators.start({ partitions: COUNT, configDir: payments.postern.configDir });
});

/** Runs commands through the console, which has the same operations as the commands on Redis. */
const runThroughConsole = (...args: readonly string[]) =>
  runHere([...args, "--config-dir", "/nowhere", "--operator", `http://${service.address}`], {
    POSTERN_OPERATOR_TOKEN: TOKENS.operator,
  });

const idsIn = (ran: { stdout: string; stderr: string }) =>
  jsonLines(ran).map((each) => String(each["call_id"]));

test("the commands list, reconcile, resolve and audit payments of all partitions", async () => {
  await payments.devnet.chain.mine();
  const block = String((await payments.devnet.chain.client.getBlockNumber()) + 1n);
  const ids: string[] = [];
  for (const payer of payers) ids.push(await payments.buy(payer));
  expect(idsIn(await runThroughConsole("payments", "list", "-o", "json"))).toEqual(ids.toReversed());
  const [only] = payers;
  expect(
    idsIn(await runThroughConsole("payments", "list", "--payer", only?.address ?? "", "-o", "json")),
  ).toEqual([ids[0]]);
  for (const id of ids)
    expect(await runThroughConsole("payments", "show", id.slice(0, 12))).toMatchObject({
      ...{ code: 0, stdout: expect.stringContaining(id) },
    });
  const matched = await runThroughConsole("payments", "audit", "--from-block", block);
  expect([matched.code, matched.stdout]).toEqual([
    ...[0, expect.stringContaining("4 matched, 0 orphans, 0 unsettled, 0 missing, 0 surplus refunds")],
  ]);
  for (const id of ids) await payments.gateway.journal.markDisputed(id, "the chain says: expired");
  const acknowledged = await runThroughConsole(
    "payments",
    "resolve",
    ...ids,
    "--acknowledged",
    "--reason",
    "seen",
  );
  expect([acknowledged.code, acknowledged.stdout]).toEqual([0, "acknowledged 4 disputed payments\n"]);
  const settling = await Promise.all(payers.map(({ address: payer }) => payments.claim({ payer })));
  const reconciled = await runThroughConsole("payments", "reconcile", "--all", "--wait", "5", "-o", "json");
  expect(idsIn(reconciled).toSorted()).toEqual(settling.toSorted());
}, 60_000);

test("one export of refunds covers all partitions, is printed again with the same bytes, and a check closes each refund", async () => {
  const ids = await refundable(payments, COUNT, undefined, payers);
  expect(idsIn(await runThroughConsole("refunds", "list", "-o", "json"))).toEqual(ids);
  const made = await runThroughConsole("refunds", "export", "-o", "csv");
  const rows = payers.map(
    ({ address }) => `erc20,${checksummed(payments.devnet.token)},${checksummed(address)},3.2,\n`,
  );
  expect(made.stdout).toBe(`token_type,token_address,receiver,amount,id\n${rows.join("")}`);
  const id = /r_[0-9a-f]{32}/.exec(made.stderr)?.[0] ?? "";
  expect((await runThroughConsole("refunds", "show", id, "-o", "csv")).stdout).toBe(made.stdout);
  expect((await runThroughConsole("refunds", "export", "-o", "csv")).stderr).toBe(
    "nothing was exported: 0 refunds due\n",
  );
  for (const payer of payers) await payBack(payments, payer);
  const [checked] = jsonLines(await runThroughConsole("refunds", "check", "-o", "json"));
  expect(checked).toMatchObject({ closed: ids.map((call_id) => ({ call_id })), open: [], problems: [] });
}, 60_000);
