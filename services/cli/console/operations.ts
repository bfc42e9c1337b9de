import type { Operations } from "../../../shared/console/api.ts";
import { CallLifeView, ForgottenView, FoundCalls } from "../../../shared/console/calls.ts";
import { ConfiguredNames } from "../../../shared/console/configured-names.ts";
import { JobChange, JobPage, JobView } from "../../../shared/console/jobs.ts";
import { MatchRunView, RefundCheckRunView } from "../../../shared/console/money-runs.ts";
import { PaymentDetail } from "../../../shared/console/payment-view.ts";
import { PaymentPage, type PaymentsApi } from "../../../shared/console/payments.ts";
import { InFlightPage, Reconciled } from "../../../shared/console/reconcile.ts";
import { RefundExportView, RefundPage, type RefundsApi } from "../../../shared/console/refunds.ts";
import { RejectedDetail, RejectedPage } from "../../../shared/console/rejected.ts";
import { SpentElsewherePage } from "../../../shared/console/spent-elsewhere.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import { createConsoleBulk } from "./bulk.ts";
import type { ConsoleClient } from "./client.ts";
import { createConsoleFailed } from "./failed.ts";
import { pagesOf } from "./pages.ts";
import { failureOf, runAtConsole } from "./runs.ts";

/** How long the console waits for a gateway in one request. */
const WAIT_MS_MAX = 30_000;

/** What an operator's commands ask and do, by the API of `postern operator`. */
export function createConsoleOperations(client: ConsoleClient): Operations {
  const { ask, bytes } = client;
  return {
    configuredNames: () => ask(ConfiguredNames, "GET", "configured-names"),
    jobs: {
      page: (page) => ask(JobPage, "GET", "jobs", { query: page }),
      show: (job) => ask(JobView, "GET", `jobs/${job}`),
      pause: (job, reason) => ask(JobChange, "POST", `jobs/${job}/pause`, { body: { reason } }),
      resume: (job, reason = "postern jobs resume") =>
        ask(JobChange, "POST", `jobs/${job}/resume`, { body: { reason } }),
    },
    failed: createConsoleFailed(client),
    bulk: createConsoleBulk(client),
    calls: {
      find: (search, page) => ask(FoundCalls, "GET", "calls", { query: { ...search, ...page } }),
      show: (id) => ask(CallLifeView, "GET", `calls/${id}`),
      body: (id) => bytes(`calls/${id}/body`),
      result: (id) => bytes(`calls/${id}/result`),
      forget: (id, reason) => ask(ForgottenView, "POST", `calls/${id}/forget`, { body: { reason } }),
    },
    payments: createConsolePayments(client),
    refunds: createConsoleRefunds(client),
    rejected: {
      page: (filter, page) => ask(RejectedPage, "GET", "rejected", { query: { ...filter, ...page } }),
      show: (beginning) => ask(RejectedDetail, "GET", `rejected/${beginning}`),
    },
    async findMatches(order, { signal } = {}) {
      const path = "payments/audits";
      const run = await runAtConsole(
        client,
        { schema: MatchRunView, path, order },
        { ...(signal && { signal }) },
      );
      const failure = failureOf(run);
      if (failure !== undefined) throw failure;
      return run.result ?? { tokens: [] };
    },
    async checkRefunds(signal) {
      const path = "payments/refund-checks";
      const wanted = { schema: RefundCheckRunView, path, order: {} };
      const run = await runAtConsole(client, wanted, { ...(signal && { signal }) });
      if (run.result !== null && run.failure === null) return run.result;
      throw failureOf(run) ?? new Error(`the refund check is ${run.state}`);
    },
  };
}

function createConsolePayments(client: ConsoleClient): PaymentsApi {
  const { ask, tell } = client;
  const page: PaymentsApi["page"] = (filter, asked) =>
    ask(PaymentPage, "GET", "payments", { query: { ...filter, ...asked } });
  return {
    page,
    list: (filter) =>
      pagesOf(async (asked) => {
        const { payments: items, next } = await page(filter, asked);
        return { items, next };
      }),
    show: (id) => ask(PaymentDetail, "GET", `payments/${id}`),
    resolve: (id, decision) => tell("POST", `payments/${id}/resolve`, { body: decision }),
    async reconcile(id, waitMs) {
      let left = waitMs;
      for (;;) {
        const wait_ms = Math.min(WAIT_MS_MAX, Math.round(left));
        const looked = await ask(Reconciled, "POST", `payments/${id}/reconcile`, { body: { wait_ms } });
        left -= wait_ms;
        if (looked.looked !== false || left <= 0) return looked;
      }
    },
    inFlight: (asked) => ask(InFlightPage, "GET", "payments/in-flight", { query: { ...asked } }),
    spentElsewhere: (asked) =>
      ask(SpentElsewherePage, "GET", "payments/spent-elsewhere", { query: { ...asked } }),
  };
}

function createConsoleRefunds(client: ConsoleClient): RefundsApi {
  const { ask, tell, bytes } = client;
  const page: RefundsApi["page"] = (asked) =>
    ask(RefundPage, "GET", "payments/refunds", { query: { ...asked } });
  return {
    page,
    list: () =>
      pagesOf(async (asked) => {
        const { payments: items, next } = await page(asked);
        return { items, next };
      }),
    async *report() {
      yield (await bytes("payments/refunds/report")).toString("utf8");
    },
    async export(order, reason = "postern payments refund-list") {
      const asked = { body: { ...order, reason } };
      return ask(RefundExportView, "POST", "payments/refunds/exports", asked).catch((error: unknown) => {
        if (error instanceof AppError && error.code === "payment.undecidable") return undefined;
        throw error;
      });
    },
    show: (exportId) => ask(RefundExportView, "GET", `payments/refunds/exports/${exportId}`),
    withdraw: (id, reason) => tell("POST", `payments/${id}/withdraw-refund`, { body: { reason } }),
  };
}
