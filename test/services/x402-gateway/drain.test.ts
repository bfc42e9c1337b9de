import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type DrainState, startDrain } from "../../../services/x402-gateway/drain.ts";
import { writeConfig } from "../../../shared/config/config-tables.ts";
import { x402Toml } from "../../../shared/config/x402-toml.ts";
import { startPart } from "../../../shared/dev/process.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { Secret } from "../../../shared/platform/crypto/secret.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { CLOCK_CHANGE_MS, systemClock } from "../../../shared/platform/time/clock.ts";
import { connectForWork } from "../../../shared/redis/connect.ts";
import { proveWith } from "../../../shared/redis/prover.ts";
import type { ProcessKind } from "../../../shared/telemetry/processes/process.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { jsonLines } from "../../fixtures/postern.ts";
import { asUser, keys, useOwnRedis } from "../../fixtures/redis.ts";
import { idIn, JOB_PATH, PRICE, signOffer, useX402, x402Table } from "../../fixtures/x402.ts";
import { newPayer } from "../../support/devnet.ts";
import { send } from "../../support/http.ts";
import { onlyInLongRun } from "../../support/long-run.ts";
import { partitionsOver } from "../../support/partitions.ts";
import { recordingLog } from "../../support/recording-log.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { unproven } from "../../support/unproven.ts";
import { runHere } from "../cli/run-here.ts";

const fixture = useX402();
const otherRedis = useOwnRedis();
const ends = useEnds();

function configDir(redisUrl: string, user: ProcessKind): string {
  const dir = tempDir();
  writeConfig(dir, {
    postern: { drain_secs: 0, redis: { url: asUser(redisUrl, user) } },
    x402: x402Table({ devnet: fixture.devnet }),
    job_pricing: { "1": { "7": "1000000000000000" } },
  });
  return dir;
}

onlyInLongRun(() => {
  test("one authorization sent to two deployments with the same pay_to buys two jobs, and the audit finds it when it gets the other deployment's payments", async () => {
    const here = await fixture.gateway();
    const there = await fixture.gateway({ redisUrl: otherRedis.url });
    const fromBlock = String((await fixture.devnet.chain.client.getBlockNumber()) + 1n);
    await fixture.devnet.control.fault({ on: "settle", kind: "slow", delayMs: 500, times: 2 });
    const headers = await here.pay({ payer: fixture.payer });
    const answers = await Promise.all([here.post(headers), there.post(headers)]);
    expect(answers.map(({ status }) => status)).toEqual([202, 202]);
    expect(await fixture.charged()).toEqual([PRICE]);
    const id = idIn(answers[0]);
    const toBlock = String(await fixture.devnet.chain.client.getBlockNumber());

    const audit = (redisUrl: string, ...more: string[]) => {
      const config = ["--config-dir", configDir(redisUrl, "operator")];
      return runHere(["payments", "audit", ...config, "--from-block", fromBlock, ...more]);
    };
    const upTo = ["--to-block", toBlock]; // a late settle request may add one more block
    const theirs = join(tempDir(), "there.json");
    const alone = await audit(otherRedis.url, "-o", "json", ...upTo);
    writeFileSync(theirs, alone.stdout);
    expect([alone.code, (await audit(fixture.redis.url)).code]).toEqual([0, 0]);
    const compared = await audit(fixture.redis.url, "--other", theirs, ...upTo);
    expect(compared.code).toBe(1);
    expect(compared.stdout).toContain("1 transfer counted at both deployments");
    expect(compared.stdout).toContain(
      `counted twice: transaction ${answers[0].json()["transaction"]}, call ${id}`,
    );
    expect(
      jsonLines(await audit(fixture.redis.url, "--other", theirs, "-o", "json", ...upTo))[0],
    ).toMatchObject({
      compared: [{ counted_twice: [{ call_id: id }], gaps: [] }],
    });

    await fixture.devnet.chain.mine();
    const only = await here.post(await here.pay({ payer: await newPayer(fixture.devnet) }));
    expect(only.status).toBe(202);
    const shorter = await audit(fixture.redis.url, "--other", theirs);
    expect(shorter.stdout).toContain("comparison incomplete: the other audit covers only blocks");
    await otherRedis.client.flushdb();
  });

  test("`postern x402 --drain` stops sales at every gateway of its Redis, and earlier purchases are still answered", async () => {
    const selling = await fixture.gateway();
    const headers = await selling.pay({ payer: fixture.payer });
    const bought = await selling.post(headers);
    const signedBefore = await selling.pay({ payer: fixture.payer });
    const args = ["x402", "--drain", "--config-dir", configDir(fixture.redis.url, "x402")];
    const addresses = ["--bind-address", "127.0.0.1:0", "--ops-address", "127.0.0.1:0"];
    const draining = await startPart({ name: "x402", args: [...args, ...addresses], env: process.env });
    ends.defer(() => draining.kill("SIGKILL"));
    await draining.process.waitForEvent("drain.waiting");
    const ask = (path: string, more: Record<string, string> = {}, method = "POST") =>
      send(draining.address, { method, path, headers: more, ...(method === "POST" && { body: "hello" }) });

    const repeated = await eventually("a repeat is answered", async () => {
      const answer = await ask(JOB_PATH, headers);
      return answer.status === 202 ? answer : undefined;
    });
    expect([repeated.json()["transaction"], repeated.headers["idempotent-replayed"]]).toEqual([
      bought.json()["transaction"],
      "true",
    ]);
    expect((await ask(`/x402/calls/${idIn(bought)}`, {}, "GET")).json()).toMatchObject({ state: "queued" });
    for (const more of [{}, signedBefore]) {
      const answer = await ask(JOB_PATH, more);
      expect([answer.status, answer.json()["code"]]).toEqual([503, "payment.unavailable"]);
    }
    expect((await ask("/x402", {}, "GET")).json()).toEqual({ jobs: [] });
    const elsewhere = await selling.post(signedBefore);
    expect([elsewhere.status, elsewhere.json()["code"]]).toEqual([503, "payment.unavailable"]);
    expect((await selling.post(await signOffer(await selling.post(), { payer: fixture.payer }))).status).toBe(
      503,
    );
    expect(await fixture.charged()).toEqual([PRICE]);
    const ready = await send(String(draining.opsAddress), { method: "GET", path: "/readyz" });
    expect([ready.status, ready.json()]).toMatchObject([
      200,
      { drain: { drained: false, open_payments: 0, used_quotes_and_proofs: 0 } },
    ]);
  });
});

test("a drain is complete once no payment is open and all authorizations, offers, used quotes and caller proofs have expired", async () => {
  const x402 = await fixture.gateway();
  const bought = await x402.post(await x402.pay({ payer: fixture.payer }));
  const validBefore = Number((await x402.journal.find(idIn(bought)))?.terms.valid_before) * 1000;
  await x402.redis.set(keys.usedQuote("0x1"), "c_1");
  await x402.redis.set(keys.callerNonce("2"), "c_2");
  await x402.redis.zadd(keys.paymentsInReview, 1, "c_3");
  let aheadMs = 0;
  const log = recordingLog();
  const clock = () => systemClock() + aheadMs;
  const startWith = (quote_ttl_secs: number) => {
    const x402 = x402Toml({ env: {} }).parse(x402Table({ devnet: fixture.devnet, x402: { quote_ttl_secs } }));
    const drain = startDrain({ partitions: partitionsOver(fixture.redis.client), x402, clock, log }, 20);
    ends.defer(drain.stop);
    return drain;
  };
  let drain = startWith(60);
  const until = (what: Partial<DrainState>) =>
    eventually(JSON.stringify(what), () => {
      const state = drain.state();
      return (
        state !== undefined &&
        Object.entries(what).every(([name, value]) => state[name as keyof DrainState] === value)
      );
    });
  const ended = { authorizations_until: null, offers_until: null };

  await until({ open_payments: 1, used_quotes_and_proofs: 2, drained: false });
  expect(Date.parse(String(drain.state()?.authorizations_until))).toBeGreaterThan(validBefore);
  expect(drain.state()?.offers_until).not.toBeNull();
  aheadMs = 3_600_000;
  await until({ ...ended, open_payments: 1, used_quotes_and_proofs: 2, drained: false });
  await x402.redis.zrem(keys.paymentsInReview, "c_3");
  await until({ ...ended, open_payments: 0, used_quotes_and_proofs: 2, drained: false });
  await x402.redis.del(keys.usedQuote("0x1"));
  await until({ ...ended, used_quotes_and_proofs: 1, drained: false });
  await x402.redis.del(keys.callerNonce("2"));
  await until({ ...ended, open_payments: 0, used_quotes_and_proofs: 0, drained: true });
  expect(log.events.at(-1)?.event).toBe("drain.done");
  expect(log.events.filter(({ event }) => event === "drain.done")).toHaveLength(1);

  aheadMs = CLOCK_CHANGE_MS + 90_000; // the authorization lasts two minutes
  await until({ offers_until: null, drained: false });
  await drain.stop();
  drain = startWith(600);
  aheadMs = CLOCK_CHANGE_MS + 200_000;
  await until({ authorizations_until: null, drained: false });
});

test("a drain is not complete while a failover could lose the mark that refuses payments", async () => {
  const connection = connectForWork({ url: new Secret(asUser(otherRedis.url, "x402")) }, silentLogger);
  ends.defer(() => connection.disconnect());
  proveWith(connection, unproven);
  const x402 = x402Toml({ env: {} }).parse(x402Table({ devnet: fixture.devnet }));
  const log = recordingLog();
  const drain = startDrain({ partitions: partitionsOver(connection), x402, clock: systemClock, log }, 20);
  ends.defer(drain.stop);
  await eventually("it has looked", () => log.events.length > 0);
  expect(log.events[0]).toMatchObject({ event: "drain.check_failed" });
  expect(drain.state()).toBeUndefined();
});
