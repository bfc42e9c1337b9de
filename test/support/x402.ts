import type { PaymentRequired, PaymentRequirements } from "@x402/core/types";
import type { PaymentRequirementsV1 } from "@x402/core/types/v1";
import { Queue } from "bullmq";
import type { TomlTable } from "smol-toml";
import { createX402Gateway, type X402Gateway } from "../../services/x402-gateway/gateway.ts";
import { parseJobPricing } from "../../shared/config/job-pricing-toml.ts";
import { x402Toml } from "../../shared/config/x402-toml.ts";
import { Secret } from "../../shared/crypto/secret.ts";
import { devToken } from "../../shared/dev/config.ts";
import { eventually } from "../../shared/dev/wait.ts";
import type { Limits } from "../../shared/gateway/backpressure.ts";
import { listen } from "../../shared/http/listen.ts";
import type { JobCall } from "../../shared/job-call/job-call.ts";
import { createPaymentJournal, type PaymentJournal } from "../../shared/payments/journal.ts";
import { toPriceList } from "../../shared/pricing/prices.ts";
import { QUEUE_OPTIONS } from "../../shared/queue/protocol.ts";
import { connectForRequests, connectForWork, type Redis } from "../../shared/redis/connect.ts";
import type { Clock } from "../../shared/time/clock.ts";
import { type PaymentChoice, signPayment, signPaymentV1, type TestDevnet } from "./devnet.ts";
import { type Answer, send } from "./http.ts";
import { type RecordingLog, recordingLog } from "./recording-log.ts";

export const PUBLIC_URL = "http://pay.test";
/** A job that anybody may buy, at 3.20 USDC. */
export const JOB_PATH = "/x402/jobs/1/7";

export type TestX402 = {
  gateway: X402Gateway;
  address: string;
  log: RecordingLog;
  queue: Queue<JobCall>;
  redis: Redis;
  journal: PaymentJournal;
  /** The calls that wait, oldest first. */
  waiting(): Promise<JobCall[]>;
  post(headers?: Record<string, string>, more?: { path?: string; body?: Buffer | string }): Promise<Answer>;
  /** What an unpaid request is told, in both versions. */
  ask(path?: string): Promise<{ v2: PaymentRequired; v1: PaymentRequirementsV1[] }>;
  /** A version 2 payment of today's first offer, as the header of a request. */
  pay(choice: PaymentChoice, more?: Parameters<typeof signPayment>[2]): Promise<Record<string, string>>;
  payV1(choice: PaymentChoice): Promise<Record<string, string>>;
  close(): Promise<void>;
};

export type TestX402Options = {
  devnet: Pick<TestDevnet, "rpcUrl" | "facilitatorUrl" | "token" | "seller" | "network">;
  redisUrl: string;
  /** For looking into Redis, where the gateway itself goes through a proxy. */
  directUrl?: string;
  /** Over the settings here. */
  x402?: TomlTable;
  token?: TomlTable;
  /** Wei by job index, all of service 1. */
  prices?: Record<string, string>;
  limits?: Partial<Limits>;
  enqueueTimeoutMs?: number;
  clock?: Clock;
  metadataPrefix?: string;
  /** Do not wait until it is ready. */
  early?: boolean;
};

export function x402Table({
  devnet,
  x402 = {},
  token = {},
}: Pick<TestX402Options, "devnet" | "x402" | "token">): TomlTable {
  return {
    public_url: PUBLIC_URL,
    facilitator_url: devnet.facilitatorUrl,
    quote_secret: "a quote secret for these tests",
    settle_timeout_secs: 3,
    accepted_tokens: [{ ...devToken(devnet), confirmations: 0, ...token }],
    ...x402,
  };
}

/** An x402 gateway in this process, on real Redis, a real chain and a real facilitator. */
export async function startX402(options: TestX402Options): Promise<TestX402> {
  const log = recordingLog();
  const redis = connectForRequests(new Secret(options.redisUrl), log);
  const x402 = x402Toml({}).parse(x402Table(options));
  const { jobs } = parseJobPricing({ "1": options.prices ?? { "7": "1000000000000000" } });
  const gateway = createX402Gateway({
    x402,
    prices: toPriceList(jobs.values()),
    metadataPrefix: options.metadataPrefix ?? "X-PLATFORM",
    redis,
    durability: "strict",
    limits: { queueDepthMax: 1e6, oldestAgeMsMax: undefined, redisMemoryRatioMax: 0.85, ...options.limits },
    enqueueTimeoutMs: options.enqueueTimeoutMs ?? 2000,
    log,
    ...(options.clock && { clock: options.clock }),
  });
  const server = await listen(gateway.handler, "127.0.0.1:0", { requestTimeoutMs: 15_000 });
  const direct = connectForWork(new Secret(options.directUrl ?? options.redisUrl), log);
  const queue = new Queue<JobCall>("x402", { ...QUEUE_OPTIONS, connection: direct, skipMetasUpdate: true });
  queue.on("error", () => {});
  if (!options.early) await eventually("the gateway is ready", () => isReady(gateway));

  const post: TestX402["post"] = (headers = {}, { path = JOB_PATH, body = "hello" } = {}) =>
    send(server.address, { path, headers, body: Buffer.from(body) });
  const ask: TestX402["ask"] = async (path = JOB_PATH) => {
    const answer = await post({}, { path });
    const header = String(answer.headers["payment-required"]);
    return {
      v2: JSON.parse(Buffer.from(header, "base64").toString()) as PaymentRequired,
      v1: answer.json()["accepts"] as PaymentRequirementsV1[],
    };
  };
  return {
    gateway,
    address: server.address,
    log,
    queue,
    redis: direct,
    journal: createPaymentJournal(direct),
    waiting: async () => (await queue.getJobs(["wait"], 0, -1, true)).map((job) => job.data),
    post,
    ask,
    async pay(choice, more) {
      const [offer] = (await ask()).v2.accepts;
      return {
        "PAYMENT-SIGNATURE": (await signPayment(offer as PaymentRequirements, inTime(choice), more)).header,
      };
    },
    async payV1(choice) {
      const [offer] = (await ask()).v1;
      return { "X-PAYMENT": (await signPaymentV1(offer as PaymentRequirementsV1, inTime(choice))).header };
    },
    async close() {
      await server.close(100);
      await gateway.close();
      redis.disconnect();
      await queue.close();
      direct.disconnect();
    },
  };
}

/** A version 2 payment of the first offer in a 402. */
export async function signOffer(challenge: Answer, choice: PaymentChoice): Promise<Record<string, string>> {
  const { accepts } = requiredIn(challenge);
  return {
    "PAYMENT-SIGNATURE": (await signPayment(accepts[0] as PaymentRequirements, inTime(choice))).header,
  };
}

export function requiredIn(challenge: Answer): PaymentRequired {
  return JSON.parse(
    Buffer.from(String(challenge.headers["payment-required"]), "base64").toString(),
  ) as PaymentRequired;
}

/** Ends within the offered two minutes, as the official clients' do. */
export function inTime(choice: PaymentChoice): PaymentChoice {
  return { validBefore: BigInt(Math.floor(Date.now() / 1000) + 120), ...choice };
}

function isReady(gateway: X402Gateway): boolean {
  const { ready, checks } = gateway.readiness();
  const all = [checks["facilitators"], checks["chains"]].flat() as { ok: boolean }[];
  return ready && all.every(({ ok }) => ok);
}
