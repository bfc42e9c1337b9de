import { exampleBody } from "../../shared/dev-config/dev-config.ts";
import { readyCurl } from "../../shared/dev-config/ready-curl.ts";
import type { Demo } from "./scene.ts";

/** Says where everything is that stays up, and how to use it. */
export function sayWhatStays({ stage, world, parts }: Demo): void {
  stage.scene("All of it stays up");
  const row = (name: string, address: string) => stage.say(`${name.padEnd(10)}${address}`);
  row("webhooks", `http://${parts.webhooks.address}   metrics: http://${parts.webhooks.opsAddress}/metrics`);
  row("producer", `metrics: http://${parts.producer.opsAddress}/metrics`);
  row("runner", `http://${parts.runner.address}   what it ran: http://${parts.runner.address}/calls`);
  row("redis", world.redisUrl);
  for (const endpoint of world.endpoints) {
    const { path, auth, job_id: jobId } = endpoint;
    stage.say("");
    stage.say(`${path}  (${auth}, job ${jobId})`);
    const options = { address: parts.webhooks.address, body: exampleBody(jobId), showSecret: true };
    stage.say(readyCurl(endpoint, options));
  }
  stage.say("");
  stage.say("Ctrl-C ends all of it.");
}
