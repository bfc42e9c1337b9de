import type { ClientAddressOf } from "../../shared/http/client-address.ts";
import { listen } from "../../shared/http/listen.ts";
import { type Generations, handlerOf } from "../../shared/part/generations.ts";
import type { ControlHost, Tables } from "../../shared/part/host.ts";
import { closeAfterRequests } from "../../shared/part/part.ts";
import type { ProcessOptions } from "../../shared/part/process.ts";
import { runMonitored, serveWhenReady } from "../../shared/part/serve.ts";
import type { Meter } from "../../shared/platform/log/metered.ts";
import type { Metrics } from "../../shared/platform/metrics/metrics.ts";
import type { PricingConfig } from "../../shared/pricing/read-pricing.ts";
import { type GrpcParts, listenGrpc, logGrpc } from "./grpc.ts";
import { type ComposedService, composePricingService, PRICING, type X402Settlement } from "./pricing.ts";

type PricingProcess = ProcessOptions & {
  /**
   * Data of a payment gateway that accepts the quotes. With it, each answer says how its quote can be paid by x402. Only code can
   * set it: no file and no command-line option has it.
   */
  settlement?: X402Settlement | undefined;
};

export function runPricing({ settlement, ...options }: PricingProcess): Promise<number> {
  const own = { file: "pricing.toml", title: "pricing engine", opsAddress: "127.0.0.1:9094", createMeters };
  const compose = (host: ControlHost & Tables<PricingConfig>) =>
    closeAfterRequests(composePricingService({ ...host, settlement }));
  return runMonitored({ ...PRICING, ...own }, options, compose, (generations, host) => {
    const { pricing, jobs, log } = host;
    logGrpc(log);

    async function open() {
      const { http_address: httpAddress, bind_address: grpcAddress } = pricing;
      const http =
        httpAddress === false
          ? undefined
          : await listen(handlerOf(generations), httpAddress, { ...generations.current.http, log });
      const grpc = await listenGrpc(options.bindAddress ?? grpcAddress, currentGrpc(generations)).catch(
        async (error) => {
          await http?.close(0);
          throw error;
        },
      );
      return {
        close: (graceMs: number) => Promise.all([http?.close(graceMs), grpc.close(graceMs)]),
        about: {
          address: grpc.address,
          httpAddress: http?.address,
          operator: generations.current.operator,
          jobs: jobs.size,
        },
      };
    }
    return serveWhenReady(generations, host, open);
  });
}

/**
 * Creates the gRPC parts for a process whose configuration can be reloaded. After each reload, the engine is composed again, as a
 * new generation. Each call goes to the generation that is current when the call arrives.
 */
function currentGrpc(generations: Generations<ComposedService>): GrpcParts {
  return {
    ask: (...asked) => generations.current.grpc.ask(...asked),
    addressOf: (call) => (generations.current.grpc.addressOf as ClientAddressOf)(call),
    isReady: () => generations.current.grpc.isReady(),
  };
}

/** Creates the meters, which count the outcomes of requests for a price. */
function createMeters(metrics: Metrics): Record<string, Meter> {
  const quotes = metrics.counter("postern_pricing_quotes_total", "Requests for a price, by outcome", [
    "code",
  ]);
  return {
    "quote.issued": () => quotes.inc({ code: "issued" }),
    "quote.refused": ({ code, times }) => quotes.inc({ code: String(code) }, Number(times)),
  };
}
