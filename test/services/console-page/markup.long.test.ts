import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { createEnqueue } from "../../../services/webhooks-gateway/enqueue.ts";
import { writeConfig } from "../../../shared/config/config-tables.ts";
import { createRunStore } from "../../../shared/console/runs/store.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { PaymentJournal } from "../../../shared/payments/journal.ts";
import { Secret } from "../../../shared/platform/crypto/secret.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { openJobs } from "../../../shared/queue/jobs.ts";
import { createAudit } from "../../../shared/redis/audit/audit.ts";
import { connectForRequests } from "../../../shared/redis/connect.ts";
import { partitionOf } from "../../../shared/redis/partition.ts";
import { whenReady } from "../../../shared/redis/ready.ts";
import { createRejectedList } from "../../../shared/telemetry/rejected/list.ts";
import { createRecordRejected } from "../../../shared/telemetry/rejected/record.ts";
import { useOperatorPage } from "../../fixtures/console-page.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { aCall } from "../../fixtures/producer.ts";
import { keys, useRedis } from "../../fixtures/redis.ts";
import { useReports } from "../../fixtures/reports.ts";
import { claimPayment } from "../../support/made-payment.ts";
import { needs } from "../../support/needs.ts";
import { tokenTable } from "../../support/rate-tokens.ts";
import { sentRequest } from "../../support/sent-request.ts";
import { tempDir } from "../../support/temp-dir.ts";

const EVIL = '<img src=x onerror="alert(1)">';

function configured(): string {
  const configDir = join(tempDir(), "config");
  writeConfig(configDir, {
    postern: {},
    webhooks: { endpoints: [{ path: `/hooks/${EVIL}`, job_id: 1, auth: "none" }] },
    x402: { accepted_tokens: [tokenTable("3200")] },
    job_pricing: { "1": { "7": { price_wei: "1000000000000000", name: "report", description: EVIL } } },
  });
  return configDir;
}

/** Calls and failed calls have this test in calls.test.ts. */
describe("markup from a stranger, a process or an operator", needs("chromium"), () => {
  const redis = useRedis();
  const ends = useEnds();
  const reports = useReports(redis);
  const { open } = useOperatorPage({ redis, operator: { configDir: configured() } });

  async function refuse(): Promise<void> {
    const connection = connectForRequests({ url: new Secret(redis.url) }, silentLogger);
    ends.defer(() => connection.disconnect());
    await whenReady(connection, 5000);
    const record = createRecordRejected({
      partition: partitionOf(connection),
      endpoints: 1,
      clock: Date.now,
    });
    const req = sentRequest(`/${EVIL}?${EVIL}=1`, { [EVIL]: "1" });
    record(undefined, "192.0.2.1", () => ({ req, code: "request.not_found", reason: EVIL }));
    const { matching } = createRejectedList(redis.partition);
    await eventually("it is recorded", async () => (await matching({}, 1)).count === 1);
  }

  async function review(): Promise<string> {
    const journal = new PaymentJournal(redis.partition);
    const { network, asset } = tokenTable(0);
    const id = await claimPayment(journal, { network, asset: asset.toLowerCase() });
    await journal.markForReview(id, EVIL);
    return id;
  }

  let payment: string;
  beforeEach(async () => {
    const { partition, client } = redis;
    await client.flushdb();
    await reports.start();
    const [process = ""] = await client.zrevrange(keys.processes, 0, 0);
    await client.hset(keys.process(process), { host: EVIL });
    await createEnqueue(partition)(aCall({ job_id: 9 }));
    await openJobs(redis.partitions).pause("7/9", { at: Date.now(), by: EVIL, reason: EVIL });
    const audit = createAudit(partition, silentLogger);
    await audit({ at: 1, action: "pause", job: EVIL, by: EVIL, selection: "by name", reason: EVIL });
    const request = { all: true, dry_run: false, force: false, concurrency: 1, reason: EVIL };
    await createRunStore(partition).create({ kind: "replay", by: EVIL, request });
    await refuse();
    payment = await review();
  });

  test("is shown as text on every page", async () => {
    const page = await open({ hash: "#/overview" });
    const visit = async (hash: string) => {
      await page.goto(new URL(hash, page.url()).href);
      await page.getByText(EVIL).first().waitFor();
      expect([hash, await page.locator("main :is(img, script), dialog img").count()]).toEqual([hash, 0]);
    };
    await visit("#/overview");
    await visit("#/failed");
    await visit("#/payments");
    await visit(`#/payments/${payment}`);
    for (const hash of ["#/endpoints", "#/jobs", "#/payments?view=prices", "#/audit", "#/refused"])
      await visit(hash);
    await page.getByRole("row").getByRole("button", { name: EVIL }).first().click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText(EVIL).waitFor();
    expect(await dialog.locator("img").count()).toBe(0);
  });
});
