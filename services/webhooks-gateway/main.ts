import { registerPressure } from "../../shared/ingress/backpressure.ts";
import { serveGateway, withDeliveryRoutes } from "../../shared/ingress/serve.ts";
import type { ProcessOptions } from "../../shared/part/process.ts";
import { runMonitored } from "../../shared/part/serve.ts";
import { type ComposedGateway, composeWebhooksGateway, WEBHOOKS } from "./gateway.ts";
import { createMeters } from "./metrics.ts";

export function runWebhooks(options: ProcessOptions): Promise<number> {
  const { serviceId } = options;
  const own = {
    file: "webhooks.toml",
    title: "webhooks gateway",
    opsAddress: "127.0.0.1:9091",
    createMeters,
  };
  return runMonitored(
    { ...WEBHOOKS, ...own },
    options,
    (host, last?: ComposedGateway) =>
      withDeliveryRoutes(
        composeWebhooksGateway({ ...host, serviceId, earlierDocuments: last?.documents }),
        host,
      ),
    (generations, host) => {
      const { webhooks, metrics, log } = host;
      if (serviceId === undefined)
        log.warn("config.warning", { warning: "service id is 0; set --service-id or POSTERN_SERVICE_ID" });
      registerPressure(metrics, "webhook", () => generations.current.pressures());
      return serveGateway(generations, host, {
        bindAddress: options.bindAddress ?? webhooks.bind_address,
        about: { endpoints: webhooks.endpoints.map(({ path, auth }) => `${path} (${auth})`) },
      });
    },
  );
}
