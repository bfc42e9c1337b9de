import { randomUUID } from "node:crypto";
import { DEV_JOBS } from "../../shared/dev/config.ts";
import type { LoggedEvent } from "../../shared/dev/process.ts";
import { systemClock } from "../../shared/time/clock.ts";
import { alchemy, type Delivery, github, slack, slackSetUp, standardWebhook, stripe } from "./deliveries.ts";
import type { Demo } from "./demo.ts";
import type { AcceptedCall, Answered, Webhook } from "./sender.ts";
import { shortId } from "./show.ts";

/** One delivery of each of four senders, by the preset of its name alone. */
export async function realSenders(demo: Demo): Promise<void> {
  const { show } = demo;
  show.scenario("Stripe, Slack, Standard Webhooks and Alchemy get in, each signed as it really signs");
  const challenge = randomUUID();
  const setUp = await deliver(demo, slackSetUp(challenge));
  show.check(
    "Slack's url_verification, before it takes the URL, is answered 200 with its challenge, and is no call",
    [setUp.status, setUp.text, setUp.callId],
    [200, challenge, ""],
  );
  const deliveries = [stripe(), slack(), standardWebhook(), alchemy()];
  const calls: AcceptedCall[] = [];
  for (const delivery of deliveries) calls.push(await showDelivery(demo, delivery));
  await showEventTypes(demo, deliveries, calls);
}

/** The header that says what happened chooses the job, and the runner is told it. */
export async function githubEvents(demo: Demo): Promise<void> {
  const { show } = demo;
  show.scenario("GitHub's X-GitHub-Event chooses the job, and the runner knows what happened");
  const repository = { id: 186853002, full_name: "octo-org/octo-repo" };
  const ping = github("ping", { zen: "Keep it logically awesome.", hook_id: 292430182, repository });
  const pinged = await deliver(demo, ping);
  show.check(
    `${pinged.status}  ping, which GitHub sends first, has no job and is dropped`,
    [pinged.status, JSON.parse(pinged.text)],
    [202, { status: "dropped" }],
  );
  show.log("webhooks", await logged(demo, "webhook.dropped", "github"));

  const push = github("push", { ref: "refs/heads/main", after: randomUUID(), repository, commits: [] });
  const release = github("release", { action: "published", release: { id: randomUUID() }, repository });
  const calls = [await showDelivery(demo, push), await showDelivery(demo, release)];
  const { echo, keccak256 } = DEV_JOBS;
  show.check(
    `push is a call of job ${echo} (echo), release one of job ${keccak256} (keccak256)`,
    calls.map(({ jobId }) => jobId),
    [echo, keccak256],
  );
  await showEventTypes(demo, [push, release], calls);
}

const OLD_SECS = 600;

/** Somebody has recorded a request and sends it again, soon and later; the operator sees what was refused. */
export async function recordedStripe(demo: Demo): Promise<void> {
  const { show, sender } = demo;
  show.scenario(
    "A recorded request of Stripe's is no second call; an old one is refused, and the operator sees why",
  );
  const event = stripe();
  const recorded = toWebhook(demo, event);
  const first = await sender.send(recorded);
  const again = await sender.send(recorded);
  show.check(
    `the same bytes, sent twice, are one call: ${shortId(first.callId)}`,
    [first.status, again.status, again.callId, again.headers["idempotent-replayed"]],
    [200, 200, first.callId, "true"],
  );
  await demo.runner.untilDone([sender.accepted(first)]);

  const old = await sender.send(toWebhook(demo, stripe(), nowSecs() - OLD_SECS));
  const { detail } = JSON.parse(old.text) as Record<string, unknown>;
  show.check("a request signed ten minutes ago is answered 401", old.status, 401);
  const told = "unauthorized; wanted: stripe-signature; came: stripe-signature";
  show.check(`the sender is told: ${detail}`, detail, told);
  await showRejected(demo, recorded.endpoint.path);
}

async function showRejected({ show, postern }: Demo, path: string): Promise<void> {
  const list = await postern("rejected", "list", "--path", path, "--limit", "1");
  const row = list.lines.find((line) => line.startsWith("r_")) ?? "";
  const reason = /webhook\.credential_rejected +(.*)$/.exec(row)?.[1] ?? "";
  show.check(
    `$ postern rejected list --path ${path}   says why: ${reason}`,
    [list.exitCode, reason.startsWith("stale: ")],
    [0, true],
  );
  show.output(list.lines);
  const [id = ""] = row.split(" ", 1);
  const one = await postern("rejected", "show", id);
  const [came, wanted] = ["credential headers came", "and wanted"].map((fact) => factIn(one.lines, fact));
  show.check(
    `$ postern rejected show ${id}   came: ${came}, wanted: ${wanted}`,
    [one.exitCode, came, wanted],
    [0, "stripe-signature", "stripe-signature"],
  );
  show.output(one.lines);
}

/** What follows the name of a fact in the output of a command. */
function factIn(lines: readonly string[], name: string): string | undefined {
  return lines
    .find((line) => line.startsWith(name))
    ?.slice(name.length)
    .trim();
}

/** Delivers an event and shows its call. Rejects unless it is accepted. */
async function showDelivery(demo: Demo, delivery: Delivery): Promise<AcceptedCall> {
  const { show, sender, endpoint } = demo;
  const { preset, eventType, success } = delivery;
  const answer = await deliver(demo, delivery);
  const { status, callId } = answer;
  const from = `${preset.padEnd(18)}${endpoint(preset).path.padEnd(17)}${eventType.padEnd(17)}`;
  show.check(`${status}  ${from}call ${shortId(callId)}`, status, success);
  return sender.accepted(answer);
}

/** Shows that the runner has run the calls, and what its log says of them. */
async function showEventTypes(
  { show, runner, world }: Demo,
  deliveries: readonly Delivery[],
  calls: readonly AcceptedCall[],
): Promise<void> {
  await runner.untilDone(calls);
  const finished = await world.logs.runner.ofCalls(
    "job.finished",
    calls.map(({ callId }) => callId),
  );
  show.check(
    "the runner has run them, with the bytes that were signed, and logs what their senders call them",
    finished.map(({ eventType }) => eventType),
    deliveries.map(({ eventType }) => eventType),
  );
  for (const event of finished) show.log("runner", event);
}

/** Sends a delivery as its sender would, now. */
async function deliver(demo: Demo, delivery: Delivery): Promise<Answered> {
  const webhook = toWebhook(demo, delivery);
  const reply = await demo.sender.post(webhook);
  if (reply.status !== 200 || reply.text !== "") return demo.sender.count(webhook, reply);
  // Slack wants an empty answer, so only the gateway's log names the call.
  const { callId, jobId } = await logged(demo, "webhook.accepted", delivery.preset);
  return demo.sender.count(webhook, reply, { callId: String(callId), jobId: Number(jobId) });
}

/** The request of a delivery, signed at this time. */
function toWebhook({ endpoint }: Demo, { preset, body, headers }: Delivery, atSecs = nowSecs()): Webhook {
  const to = endpoint(preset);
  const secret = to.auth === "none" ? undefined : to.secret?.[0];
  return { endpoint: to, body, headers: headers(secret?.reveal() ?? "", atSecs) };
}

/** The gateway's first event of this name at a sender's endpoint. */
function logged({ world, endpoint }: Demo, name: string, preset: string): Promise<LoggedEvent> {
  const { path } = endpoint(preset);
  const matches = (event: LoggedEvent) => event.event === name && event["path"] === path;
  return world.logs.webhooks.first(`${name} of ${path} in the gateway's log`, matches);
}

function nowSecs(): number {
  return Math.floor(systemClock() / 1000);
}
