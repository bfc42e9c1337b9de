import { useAnswer } from "../../api/use-answer.ts";
import { Card } from "../../ui/card.tsx";
import { shortened } from "../../ui/copy.tsx";
import { StaleNotice } from "../../ui/live.tsx";
import { Empty } from "../../ui/notice.tsx";
import { Time } from "../../ui/time.tsx";
import { linkTo } from "../../url-fragment.ts";
import { CallState } from "./state.tsx";

const SHOWN = 10;

/** The newest calls of an endpoint or a job, and a link to all of them. */
export function LatestCalls({ search }: { search: { endpoint: string } | { job: string } }) {
  const answer = useAnswer("api/v1/calls", { ...search, limit: SHOWN }, { everyMs: 10_000 });
  const calls = answer.data?.calls;
  return (
    <Card title="Latest calls" tools={<a href={linkTo(["calls"], search)}>All calls</a>}>
      <StaleNotice answer={answer} title="Calls unavailable" />
      {calls?.length === 0 && <Empty title="No calls yet" />}
      <ul class="latest">
        {calls?.map(({ id, state, at }) => (
          <li key={id}>
            <a class="mono" href={linkTo(["calls", id])} title={id}>
              {shortened(id)}
            </a>
            <CallState state={state} />
            <Time at={at} />
          </li>
        ))}
      </ul>
    </Card>
  );
}
