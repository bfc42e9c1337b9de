import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import { createPaymentsApi } from "../../../shared/operator/payments.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { jsonLine } from "../text.ts";
import { withRedis } from "../with-redis.ts";

export type ResolveOptions = {
  configDir: string;
  settled?: boolean;
  void?: boolean;
  acknowledged?: boolean;
  transaction?: string;
  reason: string;
  json?: boolean;
};

/** `postern payments resolve`: an operator decides on a payment in REVIEW, or acknowledges a disputed one. 1 if it is neither. */
export function resolvePayment(deps: ProgramDeps, id: string, options: ResolveOptions): Promise<number> {
  const { transaction, reason, json } = options;
  const verdict = options.acknowledged ? "acknowledged" : options.settled ? "settled" : "void";
  return withRedis(deps, options, async (session) => {
    await createPaymentsApi(session).resolve(id, { verdict, transaction, reason });
    if (json) deps.print(jsonLine({ call_id: id, verdict, transaction: transaction ?? null }));
    deps.say(`${id} is ${DONE[verdict]}\n`);
    return EXIT.ok;
  });
}

const DONE = {
  void: "void, by your word",
  settled: "settled; its call is in the queue",
  acknowledged: "acknowledged: it stays as it is, and is listed as disputed no more",
};
