---The questions that wait for the person, in the order in which they came.
---
---A question never opens by itself in a window that the person works in: it is told of, counted in the statusline,
---and opens on `:Pi answer`. One is shown at a time; when it is answered, the next that waited is shown.
local M = {}

---@class pi.Question
---@field request_id string
---@field session_id string?
---@field title string one line
---@field show fun(question: pi.Question) ask the person; ends in `settle` or `later`
---@field answer pi.Respond
---@field hide? fun() take away what `show` put on the screen
---@field focus? fun() go to what `show` opened and the person has not closed
---@field over boolean? answered, here or elsewhere

---@type pi.Question[]
local waiting = {}
---@type pi.Question?
local showing

---@return pi.Question[]
function M.all()
  return vim.list_extend({}, waiting)
end

---How many wait, in all or in one session.
---@param session_id? string
---@return integer
function M.count(session_id)
  local count = 0
  for _, question in ipairs(waiting) do
    if session_id == nil or question.session_id == session_id then
      count = count + 1
    end
  end
  return count
end

local function tell(question, event)
  local session = require("pi.sessions").get(question.session_id)
  if session then
    session:emit({ type = event, question = question })
  end
  vim.cmd.redrawstatus({ bang = true })
end

---@param question pi.Question
local function in_chat(question)
  local session = require("pi.sessions").by_key(vim.b.pi_session)
  return session and session.id == question.session_id and vim.api.nvim_get_mode().mode == "n"
end

---@param question pi.Question
function M.add(question)
  waiting[#waiting + 1] = question
  tell(question, "client_question")
  local options = require("pi.config").get().questions
  if options.open == "chat" and not showing and in_chat(question) then
    M.show(question)
  elseif options.notify then
    require("pi.complaints").brief(":Pi answer – " .. question.title)
  end
end

---Show a question, by default the one that waits longest.
---@param question? pi.Question
function M.show(question)
  question = question or waiting[1]
  if showing and showing ~= question and showing.hide then
    showing.hide()
  end
  if not question then
    showing = nil
    return vim.notify("pi: nothing waits for an answer")
  end
  showing = question
  if question.focus then
    return question.focus()
  end
  question.show(question)
end

---@param question pi.Question
local function remove(question)
  question.over = true
  waiting = vim.tbl_filter(function(each)
    return each ~= question
  end, waiting)
  if question.hide then
    question.hide()
  end
  if showing == question then
    showing = nil
  end
  tell(question, "client_answered")
end

---The person has decided.
---@param question pi.Question
---@param result table
function M.settle(question, result)
  if question.over then
    return vim.notify("pi: this was decided elsewhere meanwhile")
  end
  remove(question)
  question.answer(result)
  if waiting[1] then
    vim.schedule(function()
      if waiting[1] and not showing then
        M.show()
      end
    end)
  end
end

---The person has looked, and decides another time.
---@param question pi.Question
function M.later(question)
  if question.hide then
    question.hide()
  end
  if showing == question then
    showing = nil
  end
end

---The daemon does not need the answer any more.
---@param request_id string
function M.resolved(request_id)
  for _, question in ipairs(M.all()) do
    if question.request_id == request_id then
      remove(question)
      question.answer({ cancelled = true })
    end
  end
end

---The daemon is gone, and all its questions.
function M.clear()
  for _, question in ipairs(M.all()) do
    remove(question)
  end
end

return M
