import { spawnChild } from "../../../shared/dev/child.ts";
import { exampleBody } from "../../../shared/dev/config.ts";
import { findProgram } from "../../../shared/dev/find-program.ts";
import { readyCurl } from "../../../shared/dev/ready-commands.ts";
import { beforeDeadline } from "../../../shared/dev/wait.ts";
import { shortId } from "../event-line.ts";
import type { Reply } from "../http-request.ts";
import type { Demo, Scene } from "../scene.ts";
import type { Answered, Webhook } from "../sender.ts";

/** Prints a signed curl and runs that very line; without curl, sends the same request. */
export const signedCurl: Scene = {
  title: "A signed webhook, ready to paste",
  async play(demo) {
    const { stage, parts, runner, tally, world } = demo;
    const endpoint = demo.endpoint("hmac-sha256");
    const webhook = { endpoint, body: exampleBody(endpoint.job_id) };
    const line = readyCurl(endpoint, {
      address: parts.webhooks.address,
      body: webhook.body,
      showSecret: true,
    });
    stage.say("");
    stage.say(line);
    stage.say("");

    const hasCurl = findProgram(["curl"], world.env) !== undefined;
    const answer = hasCurl ? await runCurl(demo, line, webhook) : await demo.sender.send(webhook);
    const by = hasCurl ? "this line, run in a shell," : "there is no curl here; the same request";
    stage.check(`${by} is answered 202: call ${shortId(answer.callId)} is on disk`, answer.status, 202);

    const call = tally.accepted.get(answer.callId);
    if (call !== undefined) await runner.untilDone([call]);
    stage.check("the runner has run it", await runner.stateOf(answer.callId), "done");
  },
};

async function runCurl({ sender, world }: Demo, line: string, webhook: Webhook): Promise<Answered> {
  const output: string[] = [];
  const env = { ...world.env, NO_PROXY: "127.0.0.1", no_proxy: "127.0.0.1" };
  const onLine = (text: string, from: "stdout" | "stderr") => from === "stdout" && output.push(text);
  const shell = spawnChild({ command: "sh", args: ["-c", line], env, detached: true, onLine });
  await beforeDeadline("curl ends", shell.exit);
  return sender.count(webhook, parseReply(output));
}

/** What `curl -i` prints: the status line, the headers, an empty line, the body. */
function parseReply(output: readonly string[]): Reply {
  const status = Number(/^HTTP\/\S+ (\d{3})/.exec(output[0] ?? "")?.[1] ?? 0);
  const end = output.indexOf("");
  return { status, headers: {}, text: output.slice(end + 1).join("\n") };
}
