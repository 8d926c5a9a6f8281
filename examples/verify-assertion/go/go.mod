module example.com/verify-assertion

go 1.19
