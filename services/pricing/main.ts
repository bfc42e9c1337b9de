import { listen } from "../../shared/http/listen.ts";
import type { ProcessOptions } from "../../shared/part/process.ts";
import { runMonitored, serveWhenReady } from "../../shared/part/serve.ts";
import type { Meter } from "../../shared/platform/log/metered.ts";
import type { Metrics } from "../../shared/platform/metrics/metrics.ts";
import { logGrpc } from "./grpc.ts";
import { composePricingService, PRICING, type X402Settlement } from "./pricing.ts";

type PricingProcess = ProcessOptions & {
  /** Only code can set it: there is no flag. */
  settlement?: X402Settlement | undefined;
};

export function runPricing({ settlement, ...options }: PricingProcess): Promise<number> {
  const own = { file: "pricing.toml", title: "pricing engine", opsAddress: "127.0.0.1:9094", createMeters };
  return runMonitored({ ...PRICING, ...own }, options, (host) => {
    const { pricing, jobs, log } = host;
    logGrpc(log);
    const service = composePricingService({ ...host, settlement });

    async function open() {
      const { http_address: httpAddress, bind_address: grpcAddress } = pricing;
      const http =
        httpAddress === false
          ? undefined
          : await listen(service.handler, httpAddress, { ...service.http, log });
      const grpc = await service.listenGrpc(options.bindAddress ?? grpcAddress).catch(async (error) => {
        await http?.close(0);
        throw error;
      });
      return {
        close: (graceMs: number) => Promise.all([http?.close(graceMs), grpc.close(graceMs)]),
        about: {
          address: grpc.address,
          httpAddress: http?.address,
          operator: service.operator,
          jobs: jobs.size,
        },
      };
    }
    return serveWhenReady(service, host, open);
  });
}

/** What each event adds to the metrics. */
function createMeters(metrics: Metrics): Record<string, Meter> {
  const quotes = metrics.counter("postern_pricing_quotes_total", "Requests for a price, by outcome", [
    "code",
  ]);
  return {
    "quote.issued": () => quotes.inc({ code: "issued" }),
    "quote.refused": ({ code, times }) => quotes.inc({ code: String(code) }, Number(times)),
  };
}
