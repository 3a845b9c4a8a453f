// Evaluates requests as IAM does: a list of simulations on standard input, what became of each on standard output.
import { runSimulation } from '@cloud-copilot/iam-simulate'

let text = ''
for await (const chunk of process.stdin) text += chunk

const outcomes = []
for (const simulation of JSON.parse(text)) {
  const answer = await runSimulation(simulation, {})
  outcomes.push({
    result: answer.overallResult,
    errors: answer.errors,
    ignored: answer.result?.ignoredContextKeys ?? [],
  })
}
process.stdout.write(JSON.stringify(outcomes))
