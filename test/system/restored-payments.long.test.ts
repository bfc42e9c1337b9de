import { cpSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { writeConfig } from "../../shared/config/config-tables.ts";
import { startPart } from "../../shared/dev/process.ts";
import { eventually } from "../../shared/dev/wait.ts";
import type { ProcessKind } from "../../shared/telemetry/processes/process.ts";
import { readDocument } from "../docs/blocks.ts";
import { useEnds } from "../fixtures/ends.ts";
import { jsonLines } from "../fixtures/postern.ts";
import { asUser, useOwnRedis } from "../fixtures/redis.ts";
import { idIn, useX402, x402Table } from "../fixtures/x402.ts";
import { runHere } from "../services/cli/run-here.ts";
import { tempDir } from "../support/temp-dir.ts";

const redis = useOwnRedis();
const fixture = useX402({ redis });
const ends = useEnds();

/** The steps of "Restore", by their number. */
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

/** A command of a step of the page, as the page has it. */
function commandOf(step: number, beginning: string): string[] {
  const found = new RegExp(`\`postern (${beginning}[^\`]*)\``).exec(steps[step] ?? "")?.[1];
  return String(found).split(" ");
}

test("after a restore the drain queues a payment that was settling, and what docs/backup.md waits for comes though no call runs", async () => {
  const selling = await fixture.gateway({ x402: { settle_timeout_secs: 1 } });
  const ids = await selling.undisturbed(async () => {
    const queued = await selling.post(await selling.pay({ payer: fixture.payer }));
    await fixture.devnet.control.fault({ on: "settle", kind: "drop", times: 1 });
    const settling = await selling.post(await selling.pay({ payer: fixture.payer }));
    expect([queued.status, settling.status]).toEqual([202, 503]);
    return [idIn(queued), idIn(settling)];
  });
  const files = join(redis.server.dir, "appendonlydir");
  const copy = join(tempDir(), "appendonlydir");
  await redis.client.config("SET", "auto-aof-rewrite-percentage", "0");
  cpSync(files, copy, { recursive: true });
  await fixture.stop(selling);

  await redis.server.kill("SIGKILL");
  rmSync(files, { recursive: true });
  cpSync(copy, files, { recursive: true });
  await redis.server.restart();
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
