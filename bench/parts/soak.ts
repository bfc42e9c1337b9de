import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { delay } from "../../shared/platform/time/clock.ts";
import { connectForWork } from "../../shared/redis/connect.ts";
import type { SoakOptions, SoakSent } from "../processes/soak-protocol.ts";
import { compiled } from "../support/build.ts";
import type { Counts } from "../support/counts.ts";
import { type Footprints, gaugesOfPart, gaugesOfRedis, hasGrown, watch } from "../support/footprint.ts";
import { isOfCalls, type Kind, kindsIn } from "../support/kinds.ts";
import { openProbe, type Probe } from "../support/redis-probe.ts";
import type { Setup } from "../support/setup.ts";
import { inSoakWorld, type SoakWorld, WINDOW_SECS } from "../support/soak-world.ts";
import { mebibytes, table } from "../support/table.ts";
import { CONNECTIONS } from "../support/world.ts";

/**
 * Maximum number of new calls a second. At this rate a million calls take ten minutes. The bench compares the memory of the
 * fifths of a run. A fifth is then two minutes, and Redis forgets a call sooner, after `WINDOW_SECS`.
 */
const PER_SECOND = 1700;
/** Maximum number of calls that were sent and have not succeeded. It keeps the queue short even on a slow machine. */
const OPEN_MAX = 1000;
/**
 * Time within which Redis must delete all data of the last calls, after `WINDOW_SECS` have passed. A run also ends early if
 * no call succeeds for this time.
 */
const GRACE_MS = 60_000;
const LOOK_EVERY_MS = 5000;

type Left = { name: string; kinds: Kind[] };

export type SoakFigures = Counts & {
  seconds: number;
  sent: SoakSent;
  /** Number of calls whose first run failed. The bench's handlers fail these runs on purpose, so that the calls run again. */
  retried: number;
  /**
   * Whether the bench judged the growth of memory. It does so only if a fifth of the run lasted longer than calls are
   * remembered (`WINDOW_SECS`). Memory must grow until the first calls are deleted.
   */
  judged: boolean;
  footprints: Footprints;
  left: Left[];
  failures: string[];
};

/** Measures the memory of all processes and both Redis servers while a million calls of all kinds are processed. */
export function measureSoak({ quick, nodeArgs }: Setup): Promise<SoakFigures> {
  const calls = quick ? 50_000 : 1_000_000;
  return inSoakWorld(nodeArgs, calls, async (world) => {
    const { gateway, producer, runner, queueRedis, runnerRedis } = world;
    // Workers wait for a slow reply, while a gateway's connection gives up early. On a busy machine Redis may be slow.
    const probes = {
      queue: await openProbe(queueRedis.url, connectForWork),
      runner: await openProbe(runnerRedis.url, connectForWork),
    };
    const gauges = [
      ...(await gaugesOfPart("gateway", gateway)),
      ...(await gaugesOfPart("producer", producer)),
      ...(await gaugesOfPart("runner", runner)),
      ...gaugesOfRedis("queue's Redis", queueRedis, probes.queue),
      ...gaugesOfRedis("runner's Redis", runnerRedis, probes.runner),
    ];
    const footprints = watch(gauges, async () => (await world.runs()).succeeded);
    const startedAt = performance.now();
    const sent = await sendAll(world, calls);
    await waitUntilRun(world, calls);
    const seconds = (performance.now() - startedAt) / 1000;
    const ended = { seconds, judged: seconds / 5 > WINDOW_SECS, footprints: await footprints.stop(calls) };
    const left = await waitUntilForgotten(probes);
    const { succeeded: counted, doubled: duplicates, failed: retried } = await world.runs();
    const counts = { accepted: calls, counted, duplicates };
    const figures = { ...counts, ...ended, sent, retried, left };
    for (const probe of Object.values(probes)) probe.close();
    return { ...figures, failures: failuresIn(figures) };
  });
}

async function sendAll({ gateway, countUrl }: SoakWorld, calls: number): Promise<SoakSent> {
  const { address } = gateway;
  const pace = { connections: CONNECTIONS, perSecond: PER_SECOND, openMax: OPEN_MAX };
  const options: SoakOptions = { address, countUrl, calls, ...pace };
  const args = [compiled("bench/processes/soak.ts"), JSON.stringify(options)];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  return JSON.parse(stdout) as SoakSent;
}

/** Resolves once `calls` calls have succeeded, or when no further call has succeeded for `GRACE_MS`. */
async function waitUntilRun({ runs }: SoakWorld, calls: number): Promise<void> {
  let seen = await runs();
  let progressAt = performance.now();
  while (seen.succeeded < calls && performance.now() - progressAt < GRACE_MS) {
    await delay(250);
    const now = await runs();
    if (now.succeeded > seen.succeeded) progressAt = performance.now();
    seen = now;
  }
}

/** Waits until no key of a call is left, or until all of them should have expired. Returns the keys that are still left. */
async function waitUntilForgotten(probes: Readonly<Record<string, Probe>>): Promise<Left[]> {
  const look = () =>
    Promise.all(
      Object.entries(probes).map(async ([name, { redis }]) => ({ name, kinds: await kindsIn(redis) })),
    );
  await delay(WINDOW_SECS * 1000);
  const until = performance.now() + GRACE_MS;
  let left = await look();
  while (left.some(({ kinds }) => kinds.some(isOfCalls)) && performance.now() < until) {
    await delay(LOOK_EVERY_MS);
    left = await look();
  }
  return left;
}

type Found = Omit<SoakFigures, "failures">;

function failuresIn({ sent, duplicates, judged, footprints, left }: Found): string[] {
  const { repeats, replayed, resent, refused } = sent;
  const failures: string[] = [];
  if (duplicates > 0) failures.push(`${duplicates} calls ran again although they had succeeded`);
  // Each resent delivery may change the difference of the two counts by one. If a delivery got a 503 but was accepted, its
  // second sending is answered as a repeat. If the original of a repeat was refused, the repeat is answered as new.
  if (Math.abs(replayed - repeats) > resent)
    failures.push(`${repeats} deliveries were repeated, ${replayed} were answered as repeats`);
  if (Object.keys(refused).some((status) => status !== "503"))
    failures.push(`deliveries were refused: ${JSON.stringify(refused)}`);
  const grown = judged ? footprints.gauges.filter(hasGrown) : [];
  for (const { name, growth } of grown) failures.push(`${name} has grown to ${growth.toFixed(2)} times`);
  for (const { name, kinds } of left) {
    for (const kind of kinds.filter(isOfCalls))
      failures.push(`${kind.keys} ${kind.name} are left in the ${name}'s Redis`);
  }
  return failures;
}

export function soakTable(figures: SoakFigures): string {
  return [footprintTable(figures), ...figures.left.map(leftTable), summary(figures)].join("\n\n");
}

function footprintTable({ footprints: { perSecond, gauges }, judged }: SoakFigures): string {
  const head = ["MiB", "start", "1st fifth", "2nd", "3rd", "4th", "5th", "most", "growth", "flat"];
  const rows = gauges.map((gauge) => {
    const values = [gauge.atStart, ...gauge.fifths, gauge.most].map(mebibytes);
    const verdict = hasGrown(gauge) ? "NO" : "yes";
    return [gauge.name, ...values, gauge.growth, judged && gauge.flat !== undefined ? verdict : "–"];
  });
  const rates = ["calls a second", "", ...perSecond.map(Math.round), "", "", ""];
  return table(head, [...rows, rates]);
}

function leftTable({ name, kinds }: Left): string {
  const rows = kinds.map(({ name: kind, keys, bytes }) => [kind, keys, bytes]);
  return table([`left in the ${name}'s Redis`, "keys", "bytes"], rows);
}

function summary({ counted, seconds, sent, retried, judged }: SoakFigures): string {
  const count = (number: number) => Math.round(number).toLocaleString("en");
  const lines = [
    `${count(counted)} calls in ${count(seconds)} s, ${count(counted / seconds)} a second`,
    `${count(sent.large)} had more than 256 KiB, ${count(retried)} failed once and ran again`,
    `${count(sent.replayed)} deliveries came again and did not run`,
    ...(sent.resent === 0 ? [] : [`${count(sent.resent)} had no 202 at first, and were sent again`]),
    ...(judged ? [] : ["too short to tell whether memory is flat"]),
  ];
  return lines.map((line) => `  ${line}`).join("\n");
}
