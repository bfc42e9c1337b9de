import type { Earned } from "../../api/payments.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { amountText } from "../../ui/amount.ts";
import { Card } from "../../ui/card.tsx";
import { shortened } from "../../ui/copy.tsx";
import { WhyNot } from "../../ui/live.tsx";
import { Empty } from "../../ui/notice.tsx";
import { count, counted } from "../../ui/number.ts";

const DAYS = 30;

/** What came in, by token and job over all days, and by day over all jobs. */
export function RevenueView() {
  const answer = useAnswer<{ earned: Earned[] }>("api/v1/revenue", { days: DAYS }, { everyMs: 60_000 });
  const earned = answer.data?.earned;
  return (
    <>
      <WhyNot answer={answer} />
      {earned?.length === 0 && (
        <section class="card">
          <Empty title={`Nothing was paid in the last ${DAYS} days`}>
            A payment counts on the day (UTC) on which it was settled, and for 90 days.
          </Empty>
        </section>
      )}
      {earned !== undefined && earned.length > 0 && (
        <>
          <Totals earned={earned} />
          <div class="columns even">
            <Card title={`By job, the last ${DAYS} days`} isBare>
              <Sums earned={earned} by={({ job }) => job ?? "others"} name="Job" />
            </Card>
            <Card title="By day (UTC)" isBare>
              <Sums earned={earned} by={({ day }) => day} name="Day" isByName />
            </Card>
          </div>
        </>
      )}
    </>
  );
}

function amountOf({ symbol, asset, decimals }: Earned, amount: bigint): string {
  return amountText(String(amount), symbol ?? shortened(asset, 6, 4), decimals);
}

type Sum = { name: string; token: Earned; payments: number; amount: bigint };

type SumsProps = {
  earned: readonly Earned[];
  by: (each: Earned) => string;
  name: string;
  isByName?: boolean;
};

/** Of each token its own: what they are worth in one another is not known here. */
function sumBy(earned: readonly Earned[], by: (each: Earned) => string): Sum[] {
  const sums = new Map<string, Sum>();
  for (const each of earned) {
    const key = `${by(each)} ${each.network} ${each.asset}`;
    const sum = sums.get(key) ?? { name: by(each), token: each, payments: 0, amount: 0n };
    sums.set(key, {
      ...sum,
      payments: sum.payments + each.payments,
      amount: sum.amount + BigInt(each.amount),
    });
  }
  return [...sums.values()];
}

function Totals({ earned }: { earned: readonly Earned[] }) {
  return (
    <dl class="totals">
      {sumBy(earned, () => "").map(({ token, payments, amount }) => (
        <div class="tile" key={`${token.network} ${token.asset}`}>
          <dt>
            {token.network}, {DAYS} days
          </dt>
          <dd class="tile-value">{amountOf(token, amount)}</dd>
          <dd class="tile-note muted small">{counted(payments, "payment")}</dd>
        </div>
      ))}
    </dl>
  );
}

function Sums({ earned, by, name, isByName = false }: SumsProps) {
  const sorted = sumBy(earned, by).sort((a, b) =>
    isByName ? b.name.localeCompare(a.name) : b.payments - a.payments,
  );
  const most = Math.max(1, ...sorted.map(({ payments }) => payments));
  return (
    <div class="table-box">
      <table class="stack">
        <thead>
          <tr>
            <th scope="col">{name}</th>
            <th scope="col" class="number">
              Payments
            </th>
            <th scope="col" class="wide">
              <span class="hidden">Payments as a bar</span>
            </th>
            <th scope="col" class="number">
              Amount
            </th>
          </tr>
        </thead>
        <tbody>
          {sorted.map(({ name: of, token, payments, amount }) => (
            <tr key={`${of} ${token.network} ${token.asset}`}>
              <td class="nowrap">{of}</td>
              <td class="number" data-label="Payments">
                {count(payments)}
              </td>
              <td class="wide">
                <div class="bar small-bar">
                  <div style={{ width: `${(100 * payments) / most}%` }} />
                </div>
              </td>
              <td class="number strong" data-label="Amount">
                {amountOf(token, amount)}
                <span class="step-aside small muted">{token.network}</span>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
