import { z } from "zod";
import {
  type FailedApi,
  FailedCallDetail,
  FailedCallView,
  type FailedFilter,
  FailedGroupView,
  FailedPage,
} from "../../../shared/console/failed.ts";
import { count } from "../../../shared/console/view.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import type { ConsoleClient } from "./client.ts";
import { pagesOf } from "./pages.ts";

const Counts = z.object({ matched: count, total: count });

/** Failed calls, as the console shows them and acts on them. */
export function createConsoleFailed({ ask, tell, bytes }: ConsoleClient): FailedApi {
  const page: FailedApi["page"] = (filter, asked) =>
    ask(FailedPage, "GET", "failed", { query: { ...filter, ...asked } });
  const show = (id: string) => ask(FailedCallDetail, "GET", `failed/${id}`);

  /** Those of the named calls that are among the failed ones, and match. */
  async function* named(ids: readonly string[], filter: FailedFilter): AsyncGenerator<FailedCallView> {
    for (const id of ids) {
      const call = await ask(FailedCallView, "GET", `failed/${id}`).catch((error: unknown) => {
        if (error instanceof AppError && error.code.startsWith("call.")) return undefined;
        throw error;
      });
      if (call !== undefined && isIn(call, filter)) yield call;
    }
  }

  function list({ ids, ...filter }: Parameters<FailedApi["list"]>[0]): AsyncIterable<FailedCallView> {
    if (ids !== undefined) return named(ids, filter);
    return pagesOf(async (asked) => {
      const { calls: items, next } = await page(filter, asked);
      return { items, next };
    });
  }

  return {
    ...{ page, show, list },
    async count({ ids, ...filter }) {
      const counts = await ask(Counts, "GET", "failed/count", { query: ids === undefined ? filter : {} });
      if (ids === undefined) return counts;
      let matched = 0;
      for await (const _ of named(ids, filter)) matched += 1;
      return { ...counts, matched };
    },
    groups: async (filter) =>
      (await ask(z.object({ groups: z.array(FailedGroupView) }), "GET", "failed/groups", { query: filter }))
        .groups,
    body: (id) => bytes(`failed/${id}/body`),
    replay: (id, why) => tell("POST", `failed/${id}/replay`, { body: why }),
    discard: (id, why) => tell("POST", `failed/${id}/discard`, { body: why }),
  };
}

function isIn(call: FailedCallView, { endpoint, since, until, ...same }: FailedFilter): boolean {
  const failedAt = Date.parse(call.failed_at);
  return (
    (endpoint === undefined || call.path === endpoint) &&
    (since === undefined || failedAt >= Date.parse(since)) &&
    (until === undefined || failedAt <= Date.parse(until)) &&
    (["origin", "service_id", "job_id", "code"] as const).every(
      (name) => same[name] === undefined || same[name] === call[name],
    )
  );
}
