import type { TomlTable } from "smol-toml";
import { Chains } from "../../../../services/x402-gateway/payment/chains.ts";
import { createSignIn } from "../../../../services/x402-gateway/sign-in/sign-in.ts";
import { x402Toml } from "../../../../shared/config/x402-toml.ts";
import { listen } from "../../../../shared/http/listen.ts";
import { sendProblem } from "../../../../shared/http/problem.ts";
import { PaymentJournal } from "../../../../shared/payments/journal.ts";
import { Secret } from "../../../../shared/platform/crypto/secret.ts";
import { toAppError } from "../../../../shared/platform/errors/app-error.ts";
import { type Clock, systemClock } from "../../../../shared/platform/time/clock.ts";
import { connectForRequests } from "../../../../shared/redis/connect.ts";
import { whenReady } from "../../../../shared/redis/ready.ts";
import type { UsedDevnet } from "../../../fixtures/devnet.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { x402Table } from "../../../fixtures/x402.ts";
import { type Answer, send } from "../../../support/http.ts";
import { partitionsOver, routed } from "../../../support/partitions.ts";
import { recordingLog } from "../../../support/recording-log.ts";
import { type SignInExtension, signInAskedBy } from "../../../support/sign-in.ts";

export type Door = {
  /** What this call's door says to a request with these headers. */
  knock(callId: string, headers?: readonly string[] | Readonly<Record<string, string>>): Promise<Answer>;
  /** What whoever knocks without a sign-in is asked for. */
  asked(callId: string): Promise<SignInExtension>;
  /** Puts its clock ahead. */
  skip(ms: number): void;
};

type DoorOptions = {
  devnet: UsedDevnet;
  redisUrl: string;
  x402?: TomlTable;
  token?: TomlTable;
  /** That `skip` puts ahead. */
  clock?: Clock;
};

/** A server that lets in whoever signs in to a call, with 200, and nobody else; several over one Redis are replicas of one another. */
export function useDoors() {
  const ends = useEnds();
  return async ({ redisUrl, clock: base = systemClock, ...options }: DoorOptions): Promise<Door> => {
    const log = recordingLog();
    let aheadMs = 0;
    const clock = () => base() + aheadMs;
    const x402 = x402Toml({ env: {} }).parse(x402Table(options));
    const redis = connectForRequests({ url: new Secret(redisUrl) }, log);
    await whenReady(redis, 10_000);
    const partitions = partitionsOver(redis);
    const chains = new Chains(x402.accepted_tokens, { clock, log });
    const signIn = createSignIn(x402, {
      provesByToken: async () => false,
      journal: routed(partitions.map((partition) => new PaymentJournal(partition))),
      chains,
      partitions,
      clientKeyOf: (req) => String(req.headers["x-client-key"]),
      ...{ clock, redisTime: clock },
    });
    const server = await listen(async (req, res) => {
      const callId = String(req.url).slice(1);
      try {
        const refusal = await signIn.refusalOf(req, callId);
        if (refusal === undefined) res.end("come in");
        else signIn.ask(req, res, callId, refusal);
      } catch (thrown) {
        sendProblem(req, res, toAppError(thrown));
      }
    }, "127.0.0.1:0");
    ends.defer(async () => {
      await server.close(0);
      await chains.close();
      redis.disconnect();
    });
    const knock: Door["knock"] = (callId, headers = {}) =>
      send(server.address, { method: "GET", path: `/${callId}`, headers });
    return {
      knock,
      asked: async (callId) => signInAskedBy(await knock(callId)),
      skip(ms) {
        aheadMs += ms;
      },
    };
  };
}
