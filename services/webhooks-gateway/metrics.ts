import { createAddDuration, createHttpMeters } from "../../shared/ingress/http-metrics.ts";
import type { Meter } from "../../shared/platform/log/metered.ts";
import type { Metrics } from "../../shared/platform/metrics/metrics.ts";
import { forRefusedWebhook } from "../../shared/telemetry/events/refused-webhook.ts";
import { reasonOf } from "../../shared/webhook-auth/rejected.ts";

/** Creates the gateway's metrics, and the meters that update them from log events. */
export function createMeters(metrics: Metrics): Record<string, Meter> {
  const answered = metrics.counter("postern_webhooks_total", "Webhooks answered, by outcome", [
    "path",
    "code",
  ]);
  const replayed = metrics.counter(
    "postern_webhooks_replayed_total",
    "Repeated deliveries, answered with the id of the first call",
    ["path"],
  );
  const rejected = metrics.counter("postern_auth_failures_total", "Refused credentials, by reason", [
    "path",
    "reason",
  ]);
  const unknown = metrics.counter(
    "postern_webhooks_unknown_path_total",
    "Requests to a path without an endpoint",
    [],
  );
  const add = createAddDuration(metrics);
  return {
    ...createHttpMeters(metrics),
    "webhook.accepted": ({ path, replayed: known, addMs }) => {
      const labels = { path: String(path) };
      answered.inc({ path: labels.path, code: "accepted" });
      if (known === true) replayed.inc(labels);
      add.observeMs({}, Number(addMs));
    },
    ...forRefusedWebhook<Meter>(({ path, code, reason, times = 1 }) => {
      const labels = { path: String(path) };
      answered.inc({ ...labels, code: String(code) }, Number(times));
      if (code === "webhook.credential_rejected")
        rejected.inc({ ...labels, reason: reasonOf(String(reason)) }, Number(times));
    }),
    "webhook.dropped": ({ path }) => answered.inc({ path: String(path), code: "dropped" }),
    "webhook.handshake_answered": ({ path, times }) =>
      answered.inc({ path: String(path), code: "handshake" }, Number(times ?? 1)),
    "webhook.path_unknown": ({ count }) => unknown.inc({}, Number(count)),
  };
}
