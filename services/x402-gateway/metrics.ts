import type { Meter, Metrics } from "../../shared/metrics/metrics.ts";

/** What the gateway's events add to its metrics. */
export function createMeters(metrics: Metrics): Record<string, Meter> {
  const answered = metrics.counter("postern_payments_total", "Paid requests answered, by outcome", ["code"]);
  const asked = metrics.counter("postern_payment_challenges_total", "Requests told to pay");
  const replayed = metrics.counter("postern_payments_replayed_total", "Payments that were known before");
  const duration = metrics.duration("postern_payment_duration_seconds", "From the request to its answer", [
    "code",
  ]);
  const settles = metrics.counter("postern_settle_total", "Settle requests, by outcome", ["outcome"]);
  const settle = metrics.duration("postern_settle_duration_seconds", "Time the facilitator took to settle", [
    "outcome",
  ]);
  const reconciled = metrics.counter("postern_payments_reconciled_total", "What the reconciler found", [
    "result",
  ]);
  const found = (result: string): Meter => {
    return () => reconciled.inc({ result });
  };
  return {
    "payment.asked_for": ({ times }) => asked.inc(Number(times)),
    "payment.accepted": ({ replayed: known, ms }) => {
      answered.inc({ code: "accepted" });
      if (known === true) replayed.inc();
      duration.observeMs({ code: "accepted" }, Number(ms));
    },
    "payment.refused": ({ code, ms }) => {
      answered.inc({ code: String(code) });
      duration.observeMs({ code: String(code) }, Number(ms));
    },
    "payment.settle_answered": ({ outcome, ms }) => {
      settles.inc({ outcome: String(outcome) });
      settle.observeMs({ outcome: String(outcome) }, Number(ms));
    },
    "payment.reconciled": found("settled"),
    "payment.void": found("void"),
    "payment.in_review": found("review"),
    "payment.contradicted": found("contradicted"),
    "payment.vanished": found("vanished"),
    "payment.enqueued_again": found("enqueued"),
    "payment.token_unknown": found("token_unknown"),
    "payment.call_missing": found("call_missing"),
  };
}
