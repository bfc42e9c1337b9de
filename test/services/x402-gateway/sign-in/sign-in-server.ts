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

export type SignInServer = {
  /** Sends a request with these headers for this call. */
  request(callId: string, headers?: readonly string[] | Readonly<Record<string, string>>): Promise<Answer>;
  /** Returns the sign-in that a request without one is asked for. */
  askedFor(callId: string): Promise<SignInExtension>;
  /** Moves the clock forward. */
  skip(ms: number): void;
};

type SignInServerOptions = {
  devnet: UsedDevnet;
  redisUrl: string;
  x402?: TomlTable;
  token?: TomlTable;
  /** Clock that `skip` moves. */
  clock?: Clock;
};

/** Starts servers that answer 200 to a valid sign-in and refuse all other requests. Servers over one Redis are replicas of one another. */
export function useSignInServers() {
  const ends = useEnds();
  return async ({
    redisUrl,
    clock: base = systemClock,
    ...options
  }: SignInServerOptions): Promise<SignInServer> => {
    const log = recordingLog();
    let aheadMs = 0;
    const clock = () => base() + aheadMs;
    const x402 = x402Toml({ env: {} }).parse(x402Table(options));
    const redis = connectForRequests({ url: new Secret(redisUrl) }, log);
    await whenReady(redis, 10_000);
    const partitions = partitionsOver(redis);
    const chains = new Chains(x402.accepted_tokens, { clock, log });
    const signIn = createSignIn(x402, {
      mayReadByToken: async () => false,
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
        if (refusal === undefined) res.end("signed in");
        else signIn.require(req, res, callId, refusal);
      } catch (thrown) {
        sendProblem(req, res, toAppError(thrown));
      }
    }, "127.0.0.1:0");
    ends.defer(async () => {
      await server.close(0);
      await chains.close();
      redis.disconnect();
    });
    const request: SignInServer["request"] = (callId, headers = {}) =>
      send(server.address, { method: "GET", path: `/${callId}`, headers });
    return {
      request,
      askedFor: async (callId) => signInAskedBy(await request(callId)),
      skip(ms) {
        aheadMs += ms;
      },
    };
  };
}
