import { DEV_JOBS, exampleBody } from "../../shared/dev/config.ts";
import { readyCurl, readyPay } from "../../shared/dev/ready-commands.ts";
import type { Demo } from "./scene.ts";
import type { Shop } from "./shop/shop.ts";
import type { Stage } from "./stage.ts";

/** Says where everything is that stays up, and how to use it. */
export function sayWhatStays({ stage, world, parts, shop }: Demo): void {
  stage.scene("All of it stays up");
  const row = (name: string, address: string) => stage.say(`${name.padEnd(10)}${address}`);
  row("webhooks", `http://${parts.webhooks.address}   metrics: http://${parts.webhooks.opsAddress}/metrics`);
  row("producer", `metrics: http://${parts.producer.opsAddress}/metrics`);
  row("runner", `http://${parts.runner.address}   what it ran: http://${parts.runner.address}/calls`);
  row("redis", world.redisUrl);
  if (shop !== undefined) {
    row("x402", `http://${shop.gateway.address}   metrics: http://${shop.gateway.opsAddress}/metrics`);
    row(
      "devnet",
      `${shop.devnet.rpcUrl}   facilitator: ${shop.devnet.facilitatorUrl}   faults: ${shop.devnet.controlUrl}`,
    );
  }
  for (const endpoint of world.endpoints) {
    const { path, auth, job_id: jobId } = endpoint;
    stage.say("");
    stage.say(`${path}  (${auth}, job ${jobId})`);
    const options = { address: parts.webhooks.address, body: exampleBody(jobId), showSecret: true };
    stage.say(readyCurl(endpoint, options));
  }
  if (shop !== undefined) sayHowToBuy(stage, shop);
  stage.say("");
  stage.say("Ctrl-C ends all of it.");
}

function sayHowToBuy(stage: Stage, { gateway, devnet, order }: Shop): void {
  const { path, jobId } = order(DEV_JOBS.echo, "");
  const url = `http://${gateway.address}${path}`;
  stage.say("");
  stage.say(`${path}  (x402, job ${jobId}; price: ${url}/price)`);
  stage.say(readyPay(url, jobId, devnet.payers[0]?.privateKey ?? ""));
}
