import { useState } from "preact/hooks";
import { ask, type Refused, toRefused } from "../../api/ask.ts";
import type { Payment } from "../../api/payments.ts";
import { useMayOperate } from "../../api/session.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { linkTo } from "../../route.ts";
import { amountText } from "../../ui/amount.ts";
import { Card } from "../../ui/card.tsx";
import { shortened } from "../../ui/copy.tsx";
import { OnChain } from "../../ui/explorer.tsx";
import { WhyNot } from "../../ui/live.tsx";
import { Badge, Empty, Notice } from "../../ui/notice.tsx";
import { counted } from "../../ui/number.ts";
import { Ago } from "../../ui/time.tsx";

type Transfer = { transaction: string; block: string; from: string; amount: string; nonce: string | null };

type TokenAudit = {
  network: string;
  asset: string;
  symbol: string;
  decimals: number;
  pay_to: string;
  from_block: string;
  to_block: string;
  matched: number;
  orphans: (Transfer & { call_id: string | null })[];
  unsettled: (Transfer & { payment: Payment })[];
  missing: { payment: Payment }[];
};

type AuditRun = {
  state: "none" | "running" | "done" | "failed";
  started_at: string | null;
  by: string | null;
  failure: string | null;
  tokens: TokenAudit[];
};

/** Whether the chain and the journal say the same: each transfer has its payment, and each payment its transfer. */
export function AuditView() {
  const answer = useAnswer<AuditRun>("api/v1/payments/audit", {}, { everyMs: 2000 });
  const [refused, setRefused] = useState<Refused | undefined>();
  const mayOperate = useMayOperate();
  const audit = answer.data;
  const run = async () => {
    try {
      await ask("POST", "api/v1/payments/audit", { body: {} });
      setRefused(undefined);
      answer.reload();
    } catch (error) {
      setRefused(toRefused(error));
    }
  };
  return (
    <>
      <WhyNot answer={answer} />
      {refused !== undefined && (
        <Notice tone="bad" title="No audit was begun">
          {refused.detail}
        </Notice>
      )}
      <Card
        title="The last audit"
        tools={
          mayOperate && (
            <button type="button" onClick={run} disabled={audit?.state === "running"}>
              {audit?.state === "running" ? "Running" : "Run an audit now"}
            </button>
          )
        }
      >
        {audit === undefined && <p class="muted">Loading</p>}
        {audit?.state === "none" && (
          <Empty title="No audit has run yet">
            It asks the chain for every transfer to you, and matches them with the payments.
          </Empty>
        )}
        {audit?.started_at != null && (
          <p>
            <Ago at={audit.started_at} /> by {audit.by}
          </p>
        )}
        {audit?.failure != null && (
          <Notice tone="bad" title="It failed">
            {audit.failure}
          </Notice>
        )}
      </Card>
      {audit?.tokens.map((token) => (
        <TokenCard key={`${token.network} ${token.asset}`} token={token} />
      ))}
    </>
  );
}

function TokenCard({ token }: { token: TokenAudit }) {
  const { symbol, network, from_block, to_block, matched, orphans, unsettled, missing } = token;
  const wrong = orphans.length + unsettled.length + missing.length;
  return (
    <Card
      title={`${symbol} on ${network}`}
      tools={
        <Badge tone={wrong === 0 ? "good" : "bad"}>
          {wrong === 0 ? "all matches" : counted(wrong, "mismatch", "mismatches")}
        </Badge>
      }
    >
      <p class="muted">
        Blocks {from_block} to {to_block}: {counted(matched, "transfer")} matched.
      </p>
      <ul class="mismatches">
        {orphans.map((each) => (
          <li key={`${each.transaction} ${each.nonce}`}>
            <Badge tone="bad">orphan</Badge> <Money transfer={each} token={token} />:{" "}
            {each.call_id === null
              ? "no payment can be told from it, so it paid for no job"
              : `payment ${shortened(each.call_id)} is unknown here`}
          </li>
        ))}
        {unsettled.map((each) => (
          <li key={each.transaction}>
            <Badge tone="bad">unsettled</Badge> <Money transfer={each} token={token} />, and the journal says{" "}
            <PaymentLink payment={each.payment} />
          </li>
        ))}
        {missing.map(({ payment }) => (
          <li key={payment.call_id}>
            <Badge tone="bad">missing</Badge> <PaymentLink payment={payment} /> counts as paid, and the chain
            does not show it.
          </li>
        ))}
      </ul>
    </Card>
  );
}

function Money({ transfer, token }: { transfer: Transfer; token: TokenAudit }) {
  const { transaction, from, amount } = transfer;
  return (
    <>
      {amountText(amount, token.symbol, token.decimals)} from{" "}
      <OnChain kind="address" text={from} network={token.network} /> in{" "}
      <OnChain kind="tx" text={transaction} network={token.network} />
    </>
  );
}

function PaymentLink({ payment: { call_id, state } }: { payment: Payment }) {
  return (
    <>
      <a class="mono" href={linkTo(["payments", call_id])}>
        {shortened(call_id)}
      </a>{" "}
      is {state.replaceAll("_", " ")}
    </>
  );
}
