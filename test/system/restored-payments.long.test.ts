import { cpSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { writeConfig } from "../../shared/config/config-tables.ts";
import { startPart } from "../../shared/dev/process.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { silentLogger } from "../../shared/platform/log/logger.ts";
import { Deployment } from "../../shared/redis/deployment.ts";
import type { ProcessKind } from "../../shared/telemetry/processes/process.ts";
import { readDocument } from "../docs/blocks.ts";
import { useEnds } from "../fixtures/ends.ts";
import { jsonLines } from "../fixtures/postern.ts";
import { asUser, useOwnRedis } from "../fixtures/redis.ts";
import { idIn, PRICE, useX402, x402Table } from "../fixtures/x402.ts";
import { runHere } from "../services/cli/run-here.ts";
import { paymentIn } from "../support/books.ts";
import { tempDir } from "../support/temp-dir.ts";

const redis = useOwnRedis();
const fixture = useX402({ redis });
const ends = useEnds();

/** Steps of "Restore", by number. */
const [, section = ""] = readDocument("docs/backup.md").split("## Restore\n");
const steps = section.split(/^\d+\. /m);

function configDir(user: ProcessKind): string {
  const dir = tempDir();
  writeConfig(dir, {
    postern: { drain_secs: 0, redis: { url: asUser(redis.url, user) } },
    x402: x402Table({ devnet: fixture.devnet }),
    job_pricing: { "1": { "7": "1000000000000000" } },
  });
  return dir;
}

/** Returns a command of a step, as the page shows it. */
function commandOf(step: number, beginning: string): string[] {
  const found = new RegExp(`\`postern (${beginning}[^\`]*)\``).exec(steps[step] ?? "")?.[1];
  return String(found).split(" ");
}

const files = () => join(redis.server.dir, "appendonlydir");

async function backup(): Promise<string> {
  const copy = join(tempDir(), "appendonlydir");
  await redis.client.config("SET", "auto-aof-rewrite-percentage", "0");
  cpSync(files(), copy, { recursive: true });
  return copy;
}

async function restore(copy: string): Promise<void> {
  await redis.server.kill("SIGKILL");
  rmSync(files(), { recursive: true });
  cpSync(copy, files(), { recursive: true });
  await redis.server.restart();
}

/** Creates a gateway that checks whether an audit is due, as the program's gateway does. */
const gatewayOfProgram = () => fixture.gateway({ deployment: new Deployment({}, silentLogger) });

test("after a restore the drain queues a payment that was settling, and the wait in docs/backup.md ends although no call runs", async () => {
  const selling = await fixture.gateway({ x402: { settle_timeout_secs: 1 } });
  const ids = await selling.undisturbed(async () => {
    const queued = await selling.post(await selling.pay({ payer: fixture.payer }));
    await fixture.devnet.control.fault({ on: "settle", kind: "drop", times: 1 });
    const settling = await selling.post(await selling.pay({ payer: fixture.payer }));
    expect([queued.status, settling.status]).toEqual([202, 503]);
    return [idIn(queued), idIn(settling)];
  });
  const copy = await backup();
  await fixture.stop(selling);
  await restore(copy);
  const config = ["--config-dir", configDir("operator")];
  const listed = async (command: readonly string[]) =>
    jsonLines(await runHere([...command, ...config, "-o", "json"])).map(({ call_id, state }) => [
      call_id,
      state,
    ]);
  const waitsFor = commandOf(7, "payments");
  expect(await listed(waitsFor)).toEqual([[ids[1], "settling"]]);

  const args = [...commandOf(7, "x402"), "--config-dir", configDir("x402")];
  const addresses = ["--bind-address", "127.0.0.1:0", "--ops-address", "127.0.0.1:0"];
  const draining = await startPart({ name: "x402", args: [...args, ...addresses], env: process.env });
  ends.defer(() => draining.kill("SIGKILL"));
  await eventually("the wait ends", async () => (await listed(waitsFor)).length === 0);
  const open = await listed(["payments", "list", "--open"]);
  expect(open.toSorted()).toEqual(ids.map((id) => [id, "queued"]).toSorted());
});

test("after a restore the audit of docs/backup.md names each lost payment, nothing is sold before it, and no payer of these is charged again", async () => {
  const { payer, devnet } = fixture;
  const before = await gatewayOfProgram();
  const fromBlock = String((await devnet.chain.client.getBlockNumber()) + 1n);
  const kept = await before.pay({ payer });
  expect((await before.post(kept)).status).toBe(202);
  const copy = await backup();
  const { timestamp } = await devnet.chain.client.getBlock();
  const lost = [await before.pay({ payer }), await before.pay({ payer })];
  for (const payment of lost) expect((await before.post(payment)).status).toBe(202);
  await fixture.stop(before);

  await restore(copy);
  const config = ["--config-dir", configDir("operator")];
  const since = new Date(Number(timestamp) * 1000).toISOString();
  const adopt = [...commandOf(4, "redis adopt"), "--since", since, "--reason", "a restore", "--yes"];
  expect(await runHere([...adopt, ...config])).toMatchObject({ code: 0 });
  const after = await gatewayOfProgram();
  const answers = async (...payments: Record<string, string>[]) =>
    Promise.all(payments.map(async (payment) => (await after.post(payment)).status));
  await eventually("nothing is sold", async () => (await answers({})).every((status) => status === 503));
  expect(await answers(kept, ...lost)).toEqual([202, 503, 503]);

  const audit = commandOf(8, "payments").map((word) => (word === "N" ? fromBlock : word));
  const ran = await runHere([...audit, ...config, "-o", "json"]);
  const [
    {
      tokens: [found],
    } = { tokens: [] },
  ] = jsonLines(ran) as { tokens: Record<string, unknown>[] }[];
  expect([ran.code, found?.["matched"]]).toEqual([1, 1]);
  expect(found?.["orphans"]).toEqual(
    lost.map((payment) => {
      const { nonce } = paymentIn(payment) ?? {};
      return expect.objectContaining({ from: payer.address.toLowerCase(), amount: String(PRICE), nonce });
    }),
  );
  await eventually("jobs are sold again", async () => (await answers({})).every((status) => status === 402));
  expect(await answers(kept, ...lost)).toEqual([202, 409, 409]);
  expect(await fixture.charged()).toEqual([PRICE, PRICE, PRICE]);
  await fixture.stop(after);
});
