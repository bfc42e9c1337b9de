import { eventually } from "../../shared/dev/wait.ts";
import type { Demo } from "./demo.ts";
import { httpRequest } from "./sender.ts";
import { shortId } from "./show.ts";

type Found = { id: string; state: string };
type Overview = { processes: { kind: string; version: string }[]; queues: { failed: number }[] };

/** What somebody on call looks at; it reads the demo's Redis, and nothing else knows of it. */
export async function operatorsConsole({ show, parts, ledger, payments }: Demo): Promise<void> {
  show.scenario("The operator's console shows what flowed, and finds any of these calls");
  const { address } = parts.operator;
  const get = async <Answer>(path: string): Promise<Answer> => {
    const { status, text } = await httpRequest(address, { method: "GET", path });
    if (status !== 200) throw new Error(`expected: GET ${path} answers 200; it answers ${status} ${text}`);
    return JSON.parse(text) as Answer;
  };

  const page = await httpRequest(address, { method: "GET", path: "/" });
  show.check(`http://${address}/ is a page`, [page.status, page.text.includes("<script")], [200, true]);

  const { processes, queues } = await get<Overview>("/api/v1/overview");
  const versions = new Set(processes.map(({ version }) => version));
  const kinds = [...new Set(processes.map(({ kind }) => kind))].toSorted().join(", ");
  show.check(`its processes, all of one version: ${kinds}`, versions.size, 1);
  const failed = queues.reduce((sum, queue) => sum + queue.failed, 0);
  show.check("no call has failed for good: what failed was replayed", failed, 0);

  const payer = payments?.buyer("version 2").address;
  const [callId = ""] = ledger.accepted.keys();
  const query = payer === undefined ? `id=${callId}` : `payer=${payer}`;
  const [call] = await eventually("the console finds it", async () => {
    const { calls } = await get<{ calls: Found[] }>(`/api/v1/calls?${query}`);
    return calls.length > 0 ? calls : undefined;
  });
  show.check(`GET /api/v1/calls?${query} finds call ${shortId(call?.id ?? "")}`, call?.state, "injected");
  const { timeline } = await get<{ timeline: { what: string }[] }>(`/api/v1/calls/${call?.id}`);
  show.say(`its life: ${timeline.map(({ what }) => what).join(", ")}`);
}
