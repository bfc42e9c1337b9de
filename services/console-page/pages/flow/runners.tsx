import type { RunnerStatus } from "../../api/flow.ts";
import { Card } from "../../ui/card.tsx";
import { Badge, type Tone } from "../../ui/notice.tsx";
import { count } from "../../ui/number.ts";
import { Ago } from "../../ui/time.tsx";

const WORDS: Readonly<Record<string, { tone: Tone; word: string }>> = {
  away: { tone: "bad", word: "unreachable" },
  silent: { tone: "warn", word: "not responding" },
  answers: { tone: "good", word: "responding" },
};
const UNASKED = { tone: "neutral", word: "no calls yet" } as const;

/** Whether the runners answer, as their producers see it. */
export function Runners({ runners }: { runners: readonly RunnerStatus[] }) {
  if (runners.length === 0) return null;
  return (
    <Card title="Runners" isBare>
      <div class="table-box">
        <table class="stack">
          <thead>
            <tr>
              <th scope="col">Runner</th>
              <th scope="col">Address</th>
              <th scope="col">State</th>
              <th scope="col" class="number">
                Last answer
              </th>
              <th scope="col" class="number">
                Producers
              </th>
            </tr>
          </thead>
          <tbody>
            {runners.map(({ name, url, state, reason, answered_at: answeredAt, producers, unanswered }) => {
              const { tone, word } = WORDS[state] ?? UNASKED;
              return (
                <tr key={`${name} ${url}`}>
                  <td>{name}</td>
                  <td class="mono whole wrap" data-label="Address">
                    {url}
                  </td>
                  <td class="whole" data-label="State">
                    <Badge tone={tone}>{word}</Badge>{" "}
                    {reason !== null && <span class="muted small">{reason}</span>}
                  </td>
                  <td class="number" data-label="Last answer">
                    {answeredAt === null ? "–" : <Ago at={answeredAt} />}
                  </td>
                  <td class="number" data-label="Producers">
                    {unanswered > 0 && unanswered < producers ? `${count(unanswered)} of ` : ""}
                    {count(producers)}
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </Card>
  );
}
