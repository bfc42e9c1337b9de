import type { ComponentChildren } from "preact";
import type { Earned } from "../../api/payments.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { amountText } from "../../ui/amount.ts";
import { Card } from "../../ui/card.tsx";
import { shortened } from "../../ui/copy.tsx";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { JobName } from "../../ui/job-name.tsx";
import { StaleNotice } from "../../ui/live.tsx";
import { Empty } from "../../ui/notice.tsx";
import { count, counted } from "../../ui/number.ts";
import { Tile } from "../../ui/tile.tsx";

const DAYS = 30;

/** Shows the payments, disputed payments and refunds of each token. Amounts of different tokens cannot be added. */
export function RevenueView() {
  const answer = useAnswer("api/v1/revenue", { days: DAYS }, { everyMs: 60_000 });
  const earned = answer.data?.earned;
  return (
    <>
      <StaleNotice answer={answer} />
      {earned?.length === 0 && (
        <section class="card">
          <Empty title={`No payments in the last ${DAYS} days`}>
            A payment counts on the day (UTC) when it was settled, and is kept for 90 days.
          </Empty>
        </section>
      )}
      {earned !== undefined &&
        byToken(earned).map(({ key, name, own }) => <OfToken key={key} name={name} earned={own} />)}
    </>
  );
}

/** Groups by token, sorted by the token's name. */
function byToken(earned: readonly Earned[]): { key: string; name: string; own: Earned[] }[] {
  const tokens = new Map<string, Earned[]>();
  for (const each of earned) {
    const key = `${symbolOf(each)} ${each.network} ${each.asset}`;
    tokens.set(key, [...(tokens.get(key) ?? []), each]);
  }
  const sorted = [...tokens].sort(([a], [b]) => a.localeCompare(b));
  return sorted.map(([key, own]) => ({ key, own, name: nameOf(own, sorted) }));
}

/** Names a token. Adds the address if several contracts have the same symbol on one network. */
function nameOf([token]: readonly Earned[], tokens: readonly [string, Earned[]][]): string {
  if (token === undefined) return "";
  const name = `${symbolOf(token)} on ${token.network}`;
  const namesakes = tokens.filter(
    ([, [other]]) => other && `${symbolOf(other)} on ${other.network}` === name,
  );
  return namesakes.length === 1 ? name : `${name} (${shortened(token.asset, 6, 4)})`;
}

function symbolOf({ symbol, asset }: Earned): string {
  return symbol ?? shortened(asset, 6, 4);
}

const NOTHING = { payments: 0, amount: 0n, disputes: 0, disputed: 0n, refunds: 0, refunded: 0n };

type Sum = { name: string } & typeof NOTHING;

/** Adds up the amounts of one token, with one sum for each name that `by` returns. */
function sumBy(earned: readonly Earned[], by: (each: Earned) => string): Sum[] {
  const sums = new Map<string, Sum>();
  for (const each of earned) {
    const name = by(each);
    const sum = sums.get(name) ?? { name, ...NOTHING };
    sums.set(name, {
      name,
      payments: sum.payments + each.payments,
      amount: sum.amount + BigInt(each.amount),
      disputes: sum.disputes + each.disputes,
      disputed: sum.disputed + BigInt(each.disputed),
      refunds: sum.refunds + each.refunds,
      refunded: sum.refunded + BigInt(each.refunded),
    });
  }
  return [...sums.values()];
}

/** Shows the revenue in one token: in total, by job (highest amount first), and by day (newest first). */
function OfToken({ name, earned }: { name: string; earned: readonly Earned[] }) {
  const [token] = earned;
  const [total] = sumBy(earned, () => "");
  if (token === undefined || total === undefined) return null;
  const written = (amount: bigint) => amountText(String(amount), symbolOf(token), token.decimals);
  const jobs = sumBy(earned, ({ job }) => job ?? "others").sort((a, b) => compare(b.amount, a.amount));
  const days = sumBy(earned, ({ day }) => day).sort((a, b) => b.name.localeCompare(a.name));
  return (
    <section aria-label={name}>
      <dl class="totals">
        <Tile
          name={`${name}, ${DAYS} days`}
          value={written(total.amount)}
          note={counted(total.payments, "payment")}
        />
        <Tile
          name="Disputed"
          value={written(total.disputed)}
          note={`${counted(total.disputes, "payment")}${total.disputes === 0 ? "" : ", not deducted"}`}
          isBad={total.disputes > 0}
        />
        <Tile name="Refunded" value={written(total.refunded)} note={counted(total.refunds, "refund")} />
      </dl>
      <div class="columns even">
        <Card title={`By job, last ${DAYS} days`} isBare>
          <Sums title="Job" sums={jobs} nameCell={(job) => <JobName job={job} />} written={written} />
        </Card>
        <Card title="By day (UTC)" isBare>
          <Sums title="Day" sums={days} nameCell={(day) => day} written={written} />
        </Card>
      </div>
    </section>
  );
}

function compare(a: bigint, b: bigint): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

type SumsProps = {
  title: string;
  sums: readonly Sum[];
  nameCell: (name: string) => ComponentChildren;
  written: (amount: bigint) => string;
};

function Sums({ title, sums, nameCell, written }: SumsProps) {
  const most = sums.reduce((least, { amount }) => (amount > least ? amount : least), 1n);
  const columns: Column<Sum>[] = [
    { title, class: "nowrap", cell: ({ name }) => nameCell(name) },
    { title: "Payments", class: "number", cell: ({ payments }) => count(payments) },
    { title: "Amount", class: "number strong", cell: ({ amount }) => written(amount) },
    {
      title: "Relative amount",
      isTitleHidden: true,
      class: "wide",
      cell: ({ amount }) => (
        <div class="bar small-bar">
          <div style={{ width: `${percentOf(amount, most)}%` }} />
        </div>
      ),
    },
    notDeducted("Disputed", ({ disputed }) => disputed, written),
    notDeducted("Refunded", ({ refunded }) => refunded, written),
  ];
  return <DataTable columns={columns} items={sums} keyOf={(sum) => sum.name} />;
}

/** Makes a column for disputed or refunded amounts. The column Amount still includes them. */
function notDeducted(title: string, amountOf: (sum: Sum) => bigint, written: (amount: bigint) => string) {
  return {
    title,
    class: "number",
    tone: (sum: Sum) => (amountOf(sum) === 0n ? "muted" : ""),
    cell: (sum: Sum) => (amountOf(sum) === 0n ? "–" : written(amountOf(sum))),
  } satisfies Column<Sum>;
}

/** Width of a bar, to a tenth of a percent. */
function percentOf(amount: bigint, most: bigint): number {
  return Number((amount * 1000n) / most) / 10;
}
