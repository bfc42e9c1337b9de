import { Webhook } from "standardwebhooks";
import { readEvents } from "../../shared/http/read-event-stream.ts";
import type { Demo } from "./demo.ts";
import { shortId } from "./show.ts";
import { TOLD_PATH } from "./world.ts";

const STEPS = 3;
/** A runner tells of its progress once a second. */
const BODY = JSON.stringify({ steps: STEPS, ms_per_step: 700 });

/** A long job, whose end comes long after its 202. */
export async function followedAndCalledBack(demo: Demo): Promise<void> {
  const { show, sender, parts, world } = demo;
  show.scenario("A long job is followed while it runs, and calls back when it has ended");
  const { origin } = world.receiver;
  show.say(`curl … -d '${BODY}' -H 'X-PLATFORM-CALLBACK: ${origin}/ended'`);
  const answer = await askingFor(demo, `${origin}/ended`);
  const { callId, jobId } = sender.accepted(answer);
  show.check(`it is answered 202, and the job begins: call ${shortId(callId)}`, answer.status, 202);

  const path = `/webhooks/calls/${callId}/events`;
  show.say(
    `curl -N -H 'Authorization: Bearer …' ${path}   with the token of the 202, says while the job runs:`,
  );
  const { result_token: token } = JSON.parse(answer.text) as { result_token: string };
  const { progress, end } = await follow(`http://${parts.webhooks.address}${path}`, token);
  show.output(progress);
  show.check(
    "the stream tells how far the job is, and ends when its result is kept",
    [progress.length > 0, end["state"], end["result"]],
    [true, "injected", "kept"],
  );

  await showCallback(demo, callId, jobId);

  const refused = await askingFor(demo, "https://169.254.169.254/latest/meta-data/");
  const { code } = JSON.parse(refused.text) as { code: string };
  show.check(
    `a request that would have the cloud's metadata called is answered ${refused.status} ${code}, and runs nothing`,
    [refused.status, code],
    [403, "callback.refused"],
  );
}

function askingFor({ world, sender }: Demo, callbackUrl: string) {
  const endpoint = world.endpoints.find(({ path }) => path === TOLD_PATH);
  if (endpoint === undefined) throw new Error(`expected: an endpoint at ${TOLD_PATH}`);
  return sender.send({ endpoint, body: BODY, headers: { "X-PLATFORM-CALLBACK": callbackUrl } });
}

type Data = Record<string, unknown>;

/** Reads the events of a call until its end. */
async function follow(url: string, token: string): Promise<{ progress: string[]; end: Data }> {
  const stream = await fetch(url, { headers: { Authorization: `Bearer ${token}` } });
  if (stream.body === null) throw new Error(`expected: a stream; the gateway answers ${stream.status}`);
  const progress: string[] = [];
  for await (const { event, data } of readEvents(stream.body, { lastEventId: "", retryMs: 0 })) {
    if (event === "progress") progress.push(`${event}: ${data}`);
    if (event === "end") return { progress, end: JSON.parse(data) as Data };
  }
  return { progress, end: {} };
}

async function showCallback({ show, world }: Demo, callId: string, jobId: number): Promise<void> {
  const { toldOf, secretAt } = world.receiver;
  const { headers, body } = await toldOf(callId);
  const webhook = new Webhook(secretAt("/ended"));
  const { type, data } = webhook.verify(body, headers) as { type: string; data: Data };
  const result = data["result"] as { status: number; body: string };
  show.check(
    "the standardwebhooks library verifies what the receiver gets: the job has ended",
    [type, data["call_id"], data["job_index"]],
    ["call.completed", callId, jobId],
  );
  show.check(`with it comes the job's output: ${result.body}`, JSON.parse(result.body).steps, STEPS);
  show.check(
    "of other bytes the library says that they are not signed",
    isVerified(webhook, `${body} `, headers),
    false,
  );
  show.log("producer", await world.logs.producer.ofCall("call.injected", String(headers["webhook-id"])));
}

function isVerified(webhook: Webhook, body: string, headers: Record<string, string>): boolean {
  try {
    webhook.verify(body, headers);
    return true;
  } catch {
    return false;
  }
}
