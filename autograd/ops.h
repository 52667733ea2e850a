// All operations, for those who want to include one file.
#pragma once

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/attention.h"
#include "autograd/ops/image.h"
#include "autograd/ops/layout.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/rows.h"
