import { loadPricingConfig } from "../../../shared/config/load-pricing.ts";
import type { Part } from "../../../shared/dev/process.ts";
import type { Eip712Domain } from "../../../shared/ethereum/typed-data.ts";
import { askForQuote } from "../../../shared/pricing/ask-for-quote.ts";
import { systemClock } from "../../../shared/time/clock.ts";
import { SERVICE_ID } from "../demo-config.ts";
import { httpRequest } from "../http-request.ts";
import type { World } from "../world.ts";
import type { Order } from "./buyer.ts";

/** What the engine answers, as far as it is shown. */
export type Quoted = {
  quote_details: Record<string, string>;
  operator_id: string;
  settlement_options: { network: string; asset: string; symbol: string; amount: string; pay_to: string }[];
  x402_endpoint: string;
  quote_header: string;
};

/** The pricing engine, as its client sees it. */
export type Engine = {
  readonly domain: Eip712Domain;
  readonly difficulty: number;
  /** Does the proof of work, and asks what this order costs. */
  quote(order: Order, requester: string): Promise<Quoted>;
};

export function openEngine(part: Part, { configDir, env }: Pick<World, "configDir" | "env">): Engine {
  const { pricing } = loadPricingConfig({ dir: configDir, env });
  if (pricing === undefined) throw new Error("expected: a pricing engine");
  const address = String(part.process.events("service.started").at(-1)?.["httpAddress"]);
  const { domain, pow_difficulty: difficulty } = pricing;
  return {
    domain,
    difficulty,
    async quote({ jobId, body }, requester) {
      const wanted = {
        serviceId: Number(SERVICE_ID),
        jobIndex: jobId,
        requester,
        inputs: Buffer.from(body),
        difficulty,
      };
      const { status, text } = await httpRequest(address, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        ...askForQuote(wanted, { clock: systemClock }),
      });
      if (status !== 200) throw new Error(`expected: a quote; the engine answers ${status} ${text}`);
      return JSON.parse(text) as Quoted;
    },
  };
}
