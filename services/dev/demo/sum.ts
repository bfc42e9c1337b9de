import { eventually } from "../../../shared/dev/wait.ts";
import type { Demo } from "./demo.ts";
import { type Shop, usdc } from "./shop.ts";
import { show } from "./show.ts";

/**
 * Prints how many webhooks, payments, calls and runs the demo had, and checks that the numbers agree. The numbers come
 * from independent sources: the answers, Redis, the runner's log and the chain.
 */
export async function sum({ redis, log, webhooks }: Demo, shop: Shop | undefined): Promise<void> {
  const isSuccess = ({ status }: { status: number }) => status >= 200 && status < 300;
  const answers = webhooks.filter(isSuccess);
  const delivered = answers.flatMap(({ callId }) => callId || []);
  const accepted = new Set(delivered);
  const dropped = answers.length - delivered.length;

  await eventually("an empty queue", async () => (await redis.calls()).waiting === 0).catch(() => {});
  const settled = await redis.settled();
  const ids = [...accepted, ...settled.map(({ id }) => id)];
  await Promise.all(ids.map((id) => log.ofCall("job.finished", id))).catch(() => {});
  const { waiting, failed } = await redis.calls();
  const runs = log.runs();
  const times = [...runs.values()];
  const remembered = log.named("job.finished").filter(({ replayed }) => replayed === true);

  const row = (name: string, number: number) => show.say(`${name.padEnd(46)}${String(number).padStart(5)}`);
  row("webhooks sent", webhooks.length);
  row("  new calls", accepted.size);
  row("  repeated deliveries", delivered.length - accepted.size);
  if (dropped > 0) row("  dropped events", dropped);
  row("  refused", webhooks.length - answers.length);
  if (shop !== undefined) row("payments settled (payment gateway's journal)", settled.length);
  row("calls run once (runner's log)", times.filter((n) => n === 1).length);
  row("calls run more than once", times.filter((n) => n > 1).length);
  row("calls sent again, and answered from memory", remembered.length);

  show.check(
    `It adds up: ${ids.length} calls = ${runs.size} run + ${failed} failed + ${waiting} waiting, each run once`,
    { ids: [...runs.keys()].toSorted(), times, failed, waiting },
    { ids: ids.toSorted(), times: ids.map(() => 1), failed: 0, waiting: 0 },
  );
  if (shop === undefined) return;
  const charges = await shop.charges();
  const total = (amounts: readonly { units: bigint }[]) =>
    usdc(amounts.reduce((all, { units }) => all + units, 0n));
  show.check(
    `It adds up: ${settled.length} payments = ${charges.length} charges on the chain, ${total(charges)} in total`,
    [charges.length, total(charges)],
    [settled.length, total(settled)],
  );
}
