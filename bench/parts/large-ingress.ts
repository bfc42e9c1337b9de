import { Agent, request } from "node:http";
import { writeConfig } from "../../shared/config/config-tables.ts";
import { delay } from "../../shared/time/clock.ts";
import type { Counts } from "../support/counts.ts";
import { peakRssBytesOf } from "../support/proc.ts";
import type { Setup } from "../support/setup.ts";
import { inWorld, posternTable } from "../support/world.ts";

export const LARGE_BYTES = 25 * 2 ** 20;
const MIDDLE_BYTES = 300 * 1024;
const MIDDLE_EVERY_MS = 300;
const SMALL_AT_ONCE = 4;
const TIMEOUT_MS = 120_000;

const ENDPOINTS = [
  { path: "/large", job_id: 1, auth: "none", body_limit_bytes: LARGE_BYTES },
  { path: "/middle", job_id: 2, auth: "none" },
  { path: "/small", job_id: 3, auth: "none" },
];

type Answered = { calls: number; slowestMs: number };

export type AtGateway = Counts & {
  large: Answered;
  middle: Answered;
  small: Answered;
  peakRssBytes: number;
};

/** Large bodies at once at one gateway with default settings, beside a stream of small calls and one of 300 KiB. */
export function measureAtGateway({ quick, nodeArgs }: Setup): Promise<AtGateway> {
  const bodies = quick ? 3 : 10;
  return inWorld(nodeArgs, async (world) => {
    const { redis, sink, configDir } = world;
    writeConfig(configDir, {
      postern: posternTable(redis.url, sink.url, {}),
      webhooks: { endpoints: ENDPOINTS },
    });
    const gateway = await world.startGateway();
    const sender = createSender(gateway.address);
    await sender.post("/small", Buffer.from("warm"));
    const body = Buffer.alloc(LARGE_BYTES, "x");
    const sending = Promise.all(Array.from({ length: bodies }, () => sender.post("/large", body)));
    let isOver = false;
    const streams = [...sender.small(() => isOver), sender.middle(() => isOver)];
    const largeMs = await sending.finally(() => {
      isOver = true;
    });
    const smallMs = (await Promise.all(streams.slice(0, SMALL_AT_ONCE))).flat();
    const middleMs = (await Promise.all(streams.slice(SMALL_AT_ONCE))).flat();
    const peakRssBytes = peakRssBytesOf(gateway.process.pid);
    sender.close();
    const accepted = 1 + largeMs.length + smallMs.length + middleMs.length;
    await world.startProducer();
    const { calls: counted, duplicates } = await sink.arrived(accepted);
    return {
      accepted,
      counted,
      duplicates,
      large: answered(largeMs),
      middle: answered(middleMs),
      small: answered(smallMs),
      peakRssBytes,
    };
  });
}

function answered(took: readonly number[]): Answered {
  return { calls: took.length, slowestMs: Math.max(...took) };
}

/** Its calls resolve with how long each took, in ms, and reject if one is not answered with 202. */
function createSender(address: string) {
  const agent = new Agent({ keepAlive: true });
  const post = (path: string, body: Buffer): Promise<number> =>
    new Promise((resolve, reject) => {
      const startedAt = performance.now();
      const options = {
        agent,
        method: "POST",
        timeout: TIMEOUT_MS,
        headers: { "Content-Length": body.length },
      };
      const req = request(`http://${address}${path}`, options, (res) => {
        let text = "";
        res.setEncoding("utf8");
        res.on("data", (piece: string) => {
          text += piece;
        });
        res.on("end", () => {
          if (res.statusCode === 202) resolve(performance.now() - startedAt);
          else
            reject(
              new Error(`${body.length} bytes to ${path} were answered with ${res.statusCode}: ${text}`),
            );
        });
      });
      req.on("timeout", () => req.destroy(new Error(`${path} was not answered`)));
      req.on("error", reject);
      req.end(body);
    });

  async function smallOnes(isOver: () => boolean): Promise<number[]> {
    const took: number[] = [];
    while (!isOver()) took.push(await post("/small", Buffer.from("x")));
    return took;
  }

  async function middleOnes(isOver: () => boolean): Promise<number[]> {
    const body = Buffer.alloc(MIDDLE_BYTES, "x");
    const sent: Promise<number>[] = [];
    for (; !isOver(); await delay(MIDDLE_EVERY_MS)) sent.push(post("/middle", body));
    return Promise.all(sent);
  }

  return {
    post,
    small: (isOver: () => boolean) => Array.from({ length: SMALL_AT_ONCE }, () => smallOnes(isOver)),
    middle: middleOnes,
    close: () => agent.destroy(),
  };
}
