import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { writeConfig } from "../../../shared/config/config-tables.ts";
import type { RefundCheckView } from "../../../shared/console/bulk-operations.ts";
import { OverviewView } from "../../../shared/console/overview/overview.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { PaymentJournal } from "../../../shared/payments/journal.ts";
import { routeOfPayer } from "../../../shared/payments/payment.ts";
import { type TestOperator, useOperator } from "../../fixtures/console.ts";
import { asUser, useOwnRedis, useRedis } from "../../fixtures/redis.ts";
import { claimPayment } from "../../support/made-payment.ts";
import { partitionsOver } from "../../support/partitions.ts";
import { tokenTable } from "../../support/rate-tokens.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { USDC } from "./paid-failures.ts";
import { runIn } from "./run-of.ts";

const COUNT = 4;
const LAST = COUNT - 1;

const redis = useRedis();
const ofLast = useOwnRedis();
const fixture = useOperator({ redis });

let service: TestOperator;
/** A settled payment in each partition, by partition. */
let ids: string[];
let payers: string[];

beforeEach(async () => {
  await ofLast.server.restart();
  await redis.client.flushdb();
  await ofLast.client.flushdb();
  [ids, payers] = [[], []];
  const partitions = partitionsOver(redis.client, COUNT).map((each, index) =>
    index === LAST ? { ...each, redis: ofLast.client } : each,
  );
  const journals = partitions.map((partition) => new PaymentJournal(partition));
  for (let i = 0; ids.filter(Boolean).length < COUNT; i++) {
    const payer = `0x${String(i).padStart(40, "b")}`;
    const index = partitions.indexOf(routeOfPayer(payer));
    if (ids[index] !== undefined) continue;
    ids[index] = await claimPayment(journals.all[index] as PaymentJournal, { ...USDC, payer });
    payers[index] = payer;
  }
  const configDir = join(tempDir(), "config");
  const token = { ...tokenTable("3200"), refund_from: [`0x${"5a".repeat(20)}`] };
  writeConfig(configDir, { postern: {}, x402: { accepted_tokens: [token] }, job_pricing: {} });
  service = await fixture.start({
    ...{ partitions: COUNT, lastPartitionUrl: asUser(ofLast.url, "operator"), configDir },
  });
  await reached(true);
});

const overview = async () => OverviewView.parse((await service.get("/api/v1/overview")).json());
const reached = (reachable: boolean) =>
  eventually("the console sees it", async () => (await overview()).partitions[LAST]?.reachable === reachable);

const NAMED = /^partition 3 of 4 cannot be used: /;

test("while one partition is unavailable, operations on all payments are refused with its name, and those on other partitions' payments work", async () => {
  expect((await overview()).payments).toMatchObject({
    settling: { count: 4 },
    refunds: { due: { is_whole: true } },
  });
  await ofLast.server.kill("SIGKILL");
  await reached(false);
  expect((await overview()).payments.settling.count).toBe(3);
  await eventually("the totals say so", async () => !(await overview()).payments.refunds.due.is_whole);

  const list = "/api/v1/payments";
  const exporting = { call_ids: [ids[0]], reason: "x" };
  const paths = ["", "/in-flight", "/refunds", "/refunds/report", `/refunds/exports/r_${"1".repeat(32)}`];
  const answers = [
    ...(await Promise.all(paths.map((path) => service.get(`${list}${path}`)))),
    await service.get("/api/v1/revenue"),
    await service.post(`${list}/refunds/exports`, exporting),
    await service.get(`${list}/${ids[LAST]}`),
    await service.get(`${list}?payer=${payers[LAST]}`),
  ];
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 503));
  for (const answer of answers) expect(answer.json()["detail"]).toMatch(NAMED);

  for (const [index, id] of ids.slice(0, LAST).entries()) {
    expect((await service.get(`${list}/${id}`)).json()).toMatchObject({ call_id: id, state: "settling" });
    const own = await service.get(`${list}?payer=${payers[index]}`);
    expect(own.json()).toMatchObject({ payments: [{ call_id: id }], next: null });
    const dropped = await service.post(`${list}/${id}/resolve`, { verdict: "dropped", reason: "x" });
    expect(dropped.status).toBe(200);
  }
  const begun = await service.post(`${list}/refund-checks`, {});
  const check = (await runIn(
    service,
    String(begun.headers["location"]),
    "done",
  )) as unknown as RefundCheckView;
  expect(check.result?.problems).toEqual([expect.stringMatching(NAMED)]);

  await ofLast.server.restart();
  await reached(true);
  await eventually("all are listed", async () => {
    const answer = await service.get(list);
    return answer.status === 200 && (answer.json()["payments"] as object[]).length === COUNT;
  });
}, 60_000);
