import type { X402Toml } from "../../shared/config/x402-toml.ts";
import { serveGateway, withDeliveryRoutes } from "../../shared/ingress/serve.ts";
import type { CallsHost } from "../../shared/part/host.ts";
import type { ProcessOptions } from "../../shared/part/process.ts";
import { runMonitored } from "../../shared/part/serve.ts";
import { jobsOnSale } from "../../shared/pricing/prices.ts";
import { startDrain } from "./drain.ts";
import { type ComposedGateway, composeX402Gateway, X402 } from "./gateway.ts";
import { createMeters, registerGauges } from "./metrics.ts";

type X402Process = ProcessOptions & {
  /**
   * Whether the gateway drains its deployment. It sells nothing then, and reports when another deployment may take over its
   * `pay_to`.
   */
  drain?: boolean;
};

export function runX402(options: X402Process): Promise<number> {
  const { drain: isDrained = false } = options;
  const own = { file: "x402.toml", title: "payment gateway", opsAddress: "127.0.0.1:9093", createMeters };
  return runMonitored(
    { ...X402, ...own },
    options,
    (host, last?: ComposedGateway) => {
      const earlier = last?.offers();
      const gateway = withDeliveryRoutes(composeX402Gateway({ ...host, isDrained, earlier }), host);
      return isDrained ? drained(gateway, host) : gateway;
    },
    (generations, host) => {
      const { x402, prices, metrics, partitions } = host;
      registerGauges(metrics, generations, partitions);
      return serveGateway(generations, host, {
        bindAddress: options.bindAddress ?? x402.bind_address,
        about: {
          publicUrl: x402.public_url,
          jobs: prices.size,
          jobsOnSale: jobsOnSale(x402, prices).length,
          defaultInvocationMode: x402.default_invocation_mode,
          tokens: x402.accepted_tokens.map(({ symbol, network }) => `${symbol} (${network})`),
        },
      });
    },
  );
}

/** Starts the drain together with a gateway, and adds the drain's state to the answer of `/readyz`. */
function drained(
  gateway: ComposedGateway,
  { x402, partitions, log }: CallsHost & { x402: X402Toml },
): ComposedGateway {
  const drain = startDrain({ partitions, x402, log });
  return {
    ...gateway,
    async close(graceMs) {
      await drain.stop();
      await gateway.close(graceMs);
    },
    readiness() {
      const { ready, checks } = gateway.readiness();
      return { ready, checks: { ...checks, drain: drain.state() ?? { drained: false } } };
    },
  };
}
