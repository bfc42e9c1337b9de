import { jobKey } from "../../call/job-ids.ts";
import type { Fields } from "../../platform/log/logger.ts";
import type { Meter } from "../../platform/log/metered.ts";
import { reasonOf } from "../../webhook-auth/rejected.ts";
import { forRefusedWebhook } from "../events/refused-webhook.ts";
import type { Series } from "./series.ts";

/**
 * Creates, for each counted log event, the function that adds it to the counts in `series`. Every process uses the same
 * table. `serviceId` is that of the webhooks gateway, whose log events do not contain it.
 */
export function createSeriesMeters(series: Series, serviceId = 0): Readonly<Record<string, Meter>> {
  const ofWebhook = jobSubjects("webhook");
  const ofSale = jobSubjects("x402");

  const refusedWebhook: Meter = ({ path, code, reason, times = 1 }) => {
    const subject = `endpoint:${String(path)}`;
    series.countDetail(subject, "refused", String(code), Number(times));
    if (code === "webhook.credential_rejected")
      series.countUnauthorized(subject, reasonOf(String(reason)), Number(times));
  };
  const failedAttempt = (name: "delayed" | "failed"): Meter => {
    return (fields) => series.countDetail(queueSubject(fields), name, String(fields["code"]));
  };
  return {
    "webhook.accepted": ({ path, jobId, replayed }) => {
      const name = replayed === true ? "replayed" : "accepted";
      series.count(`endpoint:${String(path)}`, name);
      series.count(ofWebhook(serviceId, jobId), name);
    },
    ...forRefusedWebhook(refusedWebhook),
    "webhook.dropped": ({ path }) => series.count(`endpoint:${String(path)}`, "dropped"),
    "webhook.handshake_answered": ({ path, times }) =>
      series.count(`endpoint:${String(path)}`, "handshakes", Number(times ?? 1)),
    "webhook.path_unknown": ({ count }) =>
      series.countDetail("origin:webhook", "refused", "request.not_found", Number(count)),
    "payment.challenged": ({ serviceId: id, jobIndex, times }) =>
      series.count(ofSale(id, jobIndex), "challenged", Number(times)),
    // A new payment is counted by `payment.settled`, which is logged once. If several requests with the same payment
    // arrive at the same time, each of them logs `payment.accepted`.
    "payment.accepted": ({ serviceId: id, jobIndex, replayed }) => {
      if (replayed === true) series.count(ofSale(id, jobIndex), "replayed");
    },
    // Refused payments are not counted for each job, because one log line may count refusals at several jobs.
    "payment.refused": ({ code, times }) =>
      series.countDetail("origin:x402", "refused", String(code), Number(times)),
    "payment.settled": ({ network, asset, amount, serviceId: id, jobIndex }) => {
      const job = jobKey({ serviceId: Number(id), jobIndex: Number(jobIndex) });
      series.count(ofSale(id, jobIndex), "accepted");
      series.countPayment({ network: String(network), asset: String(asset), job }, BigInt(String(amount)));
    },
    "call.injected": (fields) => {
      const { endToEndMs, heldMs = 0 } = fields;
      series.countInjected(queueSubject(fields), Number(endToEndMs), Number(heldMs));
    },
    "call.delayed": failedAttempt("delayed"),
    "call.failed": failedAttempt("failed"),
  };
}

function jobSubjects(origin: string) {
  return (serviceId: unknown, jobIndex: unknown) => `job:${origin}/${serviceId}/${jobIndex}`;
}

function queueSubject({ origin, serviceId, jobId }: Fields): string {
  return `job:${origin}/${serviceId}/${jobId}`;
}
